package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

func TestColors(t *testing.T) {
	t.Parallel()
	for _, color := range []bool{false, true} {
		var out bytes.Buffer
		tab := table{color: color, rightFrom: 9}
		tab.add("QUEUE", "STATE", "X")
		tab.add("a", "POISON", "1")
		tab.add("\x1b[32mb", "ERROR", "2")
		check.OK(t, tab.write(&out))
		if got := strings.Contains(out.String(), "\x1b[31mPOISON\x1b[0m"); got != color {
			t.Errorf("colors %v: %q", color, &out)
		}
		if strings.Contains(out.String(), "\x1b[32m") || !color && strings.Contains(out.String(), "\x1b") {
			t.Errorf("colors %v: %q", color, &out)
		}
		plain := out.String()
		for _, code := range []string{"0", "1", "31", "33"} {
			plain = strings.ReplaceAll(plain, "\x1b["+code+"m", "")
		}
		for i, l := range strings.Split(strings.TrimSpace(plain), "\n") {
			if !strings.HasSuffix(l, []string{"X", "1", "2"}[i]) || len(l) != len(strings.Split(plain, "\n")[0]) {
				t.Errorf("colors %v: not aligned:\n%s", color, plain)
			}
		}
	}
	if (surroundings{out: &bytes.Buffer{}}).wantsColor() {
		t.Error("a buffer is no terminal")
	}
}
