package redaction

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/theory/jsonpath"
)

func paths(t testing.TB, texts ...string) (out []*jsonpath.Path) {
	t.Helper()
	for _, text := range texts {
		p, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestSelectedValuesAreReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, text, want string }{
		{"$.card.number", `{"card": {"number": "4111", "name":"A"}}`, `{"card":{"name":"A","number":X}}`},
		{"$.items[*].secret", `{"items":[{"secret":1},{"secret":[2]},3]}`, `{"items":[{"secret":X},{"secret":X},3]}`},
		{"$[1]", ` [ 0 , 1 , {"1":2} ] `, `[0,X,{"1":2}]`},
		{"$..pin", `{"pin":1,"a":[{"pin":{"pin":2}},{"b":{"pin":null}}]}`, `{"a":[{"pin":X},{"b":{"pin":X}}],"pin":X}`},
		{"$..*", `{"a":[1]}`, `{"a":X}`},
		{"$[-1:]", `[1,2]`, `[1,X]`},
		{"$[?@.kind=='card'].number", `[{"kind":"card","number":1},{"number":2}]`,
			`[{"kind":"card","number":X},{"number":2}]`},
		{"$.a", `{"a":1,"b":2,"a":{"c":3}}`, `{"a":X,"b":2}`},
		{"$.a", `{"\u0061":1,"A":"<"}`, `{"A":"<","a":X}`},
		{"$.b", `{"b":1,"n":123456789012345678901234567890.10e+1}`, `{"b":X,"n":123456789012345678901234567890.10e+1}`},
		{"$.a", `[]`, `[]`},
	} {
		got, ok := replace([]byte(c.text), paths(t, c.path))
		if want := strings.ReplaceAll(c.want, "X", `"[redacted]"`); !ok || string(got) != want {
			t.Errorf("%s in %s: %s %t, want %s", c.path, c.text, got, ok, want)
		}
	}
}

func TestOtherTextsAreNotReplacedInPart(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "card=4111", `"{\"a\":1}"`, "4111", "null", `{"a":1`, `{"a":1} {"a":2}`,
		"{\"a\":1}\n{\"a\":2}", "{} x", "\xef\xbb\xbf{}", `{a:1}`, strings.Repeat("[", 20_000), `[`,
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)} {
		if got, ok := replace([]byte(text), paths(t, "$.a")); ok || got != nil {
			t.Errorf("%.40q: got %s, %t", text, got, ok)
		}
	}
	if got, ok := replace([]byte(`{}`), paths(t, "$.a", "$")); ok || got != nil {
		t.Errorf("all of it: got %s, %t", got, ok)
	}
}

func TestDeepAndLargeTextsTakeLittleTime(t *testing.T) {
	t.Parallel()
	start := time.Now()
	all := paths(t, "$..a..a..b", "$..*..b", "$.a.a.b", "$..a[*]..b")
	deep := strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth)
	large := "[" + strings.Repeat(`{"a":{"c":1}},`, 50_000) + `{"a":{"b":"secret"}}]`
	for _, text := range []string{deep, large} {
		got, ok := replace([]byte(text), all)
		if !ok || bytes.Contains(got, []byte("secret")) {
			t.Errorf("a text of %d bytes: %t", len(text), ok)
		}
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestOtherPathsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", ".a", "$a", "$.", "$..", "$[01]", "$.a-b", "$['a]", "$[a]", "$ .a x", "$.a "} {
		if p, err := parse(text); err == nil {
			t.Errorf("%q is the path %v", text, p)
		}
	}
}
