//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestEnqueueUnique(t *testing.T) {
	u := newUser(t)
	enqueue := func(args ...string) outcome {
		return u.run(append([]string{"enqueue", "--queue", "q", "--json", "--delay", "1h"}, args...)...)
	}
	id := enqueue("--unique", "k").jsonLines()[0]["id"]
	enqueue("--unique", "k").fails(exitState, fmt.Sprint(id))
	replaced := enqueue("--unique", "k", "--on-conflict", "replace", "--payload", "x").jsonLines()[0]
	if replaced["id"] != id || replaced["replaced"] != true {
		t.Errorf("replace: got %v, want %v", replaced, id)
	}
	debounced := enqueue("--unique", "k", "--on-conflict", "debounce", "--max-wait", "2h").jsonLines()[0]
	if debounced["id"] != id || debounced["debounced"] != true {
		t.Errorf("debounce: got %v, want %v", debounced, id)
	}
	if other := enqueue("--unique", "k", "--unique-period", "1h").jsonLines()[0]; other["id"] == id {
		t.Errorf("by period: got %v, want another task", other)
	}
	for _, wrong := range [][]string{
		{"--unique-while", "pending"}, {"--unique", "k", "--unique-while", "ended"},
		{"--unique", "k", "--unique-while", "pending", "--unique-period", "1h"}, {"--unique", "k", "--unique-period", "0s"},
		{"--unique", "k", "--on-conflict", "ignore"}, {"--unique", strings.Repeat("k", 201)},
	} {
		enqueue(wrong...).fails(exitUsage)
	}
	lines := `{"queue": "lines", "unique": {"key": "a"}}
{"queue": "lines", "unique": {"key": "a"}}
{"queue": "lines", "unique": {"key": "a", "on_conflict": "replace"}}
{"queue": "lines", "unique": {"key": "a", "on_conflict": "debounce"}, "delay_seconds": 5}
`
	out := u.feed(lines, "enqueue", "--lines", "--json")
	got := out.jsonLines()
	if len(got) != 4 || got[1]["duplicate"] != true || got[2]["replaced"] != true || got[3]["debounced"] != true {
		t.Errorf("lines: got %v", got)
	}
}
