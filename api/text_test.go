package api_test

import (
	"strings"
	"testing"
)

// TestTextsThatCannotBeKeptAreRefused sends texts that encoding/json would replace: two references would become one,
// and the second task would be lost as a duplicate.
func TestTextsThatCannotBeKeptAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, text := range []string{
		"caf\xe9", "\xed\xa0\x80", `\ud800`, `\uDCE9`, `a\udce9b`, `\ud83d\ud83d`, `\ude00\ud83d`, `\ud83dx`, `\\\udce9`,
	} {
		for _, body := range []string{
			`{"reference":"` + text + `"}`, `{"payload":"` + text + `"}`, `{"headers":{"payload":"` + text + `"}}`,
			`{"key":"` + text + `"}`, `{"payload":{},"kind":"` + text + `"}`,
		} {
			s.refused(400, "invalid-json", "POST", mail+"/tasks", body)
			s.refused(400, "invalid-json", "POST", mail+"/tasks/batch", `{"tasks":[{},`+body+`]}`)
		}
	}
	for _, text := range []string{
		`\ud83d\ude00`, "\U0001F600", "\uFFFD", `\ufffd`, `\\ud800`, `\\\\udce9`, `\"\ud83d\ude00\\`, `\u00e9`,
	} {
		s.must(201, "POST", mail+"/tasks", `{"kind":"`+text+`","payload":"`+text+`"}`)
	}
	deep := strings.Repeat("[", 9000) + `"\ud83d\ude00"` + strings.Repeat("]", 9000) // read once, not once for each level
	s.refused(422, "invalid-request", "POST", mail+"/tasks", `{"kind":`+deep+`}`)
	const verbatim = `{"name": "\udce9", "n": [12345678901234567890123]}`
	id := s.must(201, "POST", mail+"/tasks", `{"reference":"r","payload":`+verbatim+`}`)["id"]
	if got := s.must(200, "GET", "/v1/db/shop/tasks/"+id.(string), ""); got["payload"] != verbatim {
		t.Errorf("the payload is %v, want %s", got["payload"], verbatim)
	}
	if n := len(s.must(200, "GET", "/v1/db/shop/tasks?limit=1000", "")["tasks"].([]any)); n != 9 {
		t.Errorf("%d tasks, want 9", n)
	}
}
