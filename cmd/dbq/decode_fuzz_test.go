package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// FuzzConfig gives any value to each field of the configuration in turn: no error has a part of the value, which may
// be a DSN or a secret in the wrong place.
func FuzzConfig(f *testing.F) {
	example, err := os.ReadFile("../../docs/serve-example.yml")
	if err != nil {
		f.Fatal(err)
	}
	fields := regexp.MustCompile(`(?m)^[ a-z_-]+: *([^\s#][^\n]*)?$`).FindAllIndex(example, -1)
	if len(fields) < 30 {
		f.Fatalf("only %d fields are found", len(fields))
	}
	forms := []string{"%s: %s", "%s: [%s]", "%s: [{role: %s}]"}
	for i := range fields {
		for form := range forms {
			f.Add(uint8(i), uint8(form), "", "ed@db.example:5432/shop")
			f.Add(uint8(i), uint8(form), "`", "")
			f.Add(uint8(i), uint8(form), `"`, "/8")
		}
	}
	f.Fuzz(func(t *testing.T, field, form uint8, begin, end string) {
		at := fields[int(field)%len(fields)]
		name, _, _ := strings.Cut(string(example[at[0]:at[1]]), ":")
		value, err := json.Marshal(begin + "plant" + end)
		check.OK(t, err)
		text := string(example[:at[0]]) + fmt.Sprintf(forms[int(form)%len(forms)], name, value) + string(example[at[1]:])
		if err := decodeConfig([]byte(text), &serveConfig{}); err != nil && strings.Contains(err.Error(), "plant") {
			t.Errorf("%s: %s: the error has a part of the value: %v", strings.TrimSpace(name), value, err)
		}
	})
}

// FuzzTaskLine reads any line: one that is accepted is a JSON object and names a queue.
func FuzzTaskLine(f *testing.F) {
	f.Add([]byte(`{"queue":"q","payload":{"a":1},"delay_seconds":1.5,"unique":{"key":"k"},"headers":{"a":"b"}}`))
	f.Add([]byte(`{"queue":"q","payload_base64":"AA==","run_at":"2030-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		queue, _, err := parseTaskLine(text, taskLine{})
		if err == nil && (queue == "" || !json.Valid(text) || strings.TrimSpace(string(text))[0] != '{') {
			t.Errorf("%q is a task of queue %q", text, queue)
		}
	})
}
