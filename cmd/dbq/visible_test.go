package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq/internal/check"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "plain text": "plain text", "naïve Ünïcode 日本 😀": "naïve Ünïcode 日本 😀",
		"a\x1b[31mb":                   `a\x1b[31mb`,
		"a\nb\rc\td":                   `a\nb\rc\td`,
		"a\u202eb\u200bc\u2028d\ufeff": `a\u202eb\u200bc\u2028d\ufeff`, "\xff\xc3": `\xff\xc3`,
		"\u009b31m\x7f": `\u009b31m\x7f`, "\ufffd": "\ufffd",
		"\U000e0041": `\U000e0041`, "e\u0301": "e\u0301", "z\u0301\u0301\u0301\u0301": "z\u0301\u0301" + `\u0301\u0301`,
		"\u3164\u2800": `\u3164\u2800`,
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := visibleLines("a\tb\x1b\r\n\nc"); got != "a\tb\\x1b\\r\n\nc" {
		t.Errorf("lines are shown as %q", got)
	}
}

// isSafe reports whether a terminal only shows a text, line by line.
func isSafe(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' &&
			(!unicode.IsPrint(r) || isBlank(r))
	})
}

func FuzzVisible(f *testing.F) {
	f.Add("a\x1b]0;title\x07\u202e\xff\u2066")
	f.Fuzz(func(t *testing.T, text string) {
		if got := visible(text); !isSafe(got) || strings.Contains(got, "\n") {
			t.Errorf("%q is shown as %q", text, got)
		}
		if got := visibleLines(text); !isSafe(strings.ReplaceAll(got, "\t", "")) ||
			strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q is shown as %q", text, got)
		}
		was, err := json.Marshal(text)
		check.OK(t, err)
		got := visibleJSON(bytes.Clone(was))
		var before, after string
		if json.Unmarshal(was, &before) != nil || json.Unmarshal(got, &after) != nil || before != after ||
			!isSafe(string(got)) {
			t.Errorf("%s became %s", was, got)
		}
	})
}

func TestTablesAreAligned(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tab := table{rightFrom: 2}
	tab.add("NAME", "KIND", "N")
	tab.add("日本", "e\u0301", "1")
	tab.add("a\x1b\n", "ab", "22")
	tab.add("한국😀", "\uff21", "3")
	check.OK(t, tab.write(&out))
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if got := cellWidth(line); got != 17 {
			t.Errorf("line %d is %d cells wide, want 17:\n%s", i, got, &out)
		}
	}
}
