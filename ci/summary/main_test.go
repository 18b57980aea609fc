package main

import (
	"strings"
	"testing"
)

// The events are those of a module with a package each that passes, fails, panics and does not compile.
const events = `{"Action":"run","Package":"m/a","Test":"TestA"}
{"Action":"run","Package":"m/a","Test":"TestA/one"}
{"Action":"pass","Package":"m/a","Test":"TestA/one"}
{"Action":"attr","Package":"m/a","Test":"TestA/one","Key":"engine","Value":"SQLite 3"}
{"Action":"run","Package":"m/a","Test":"TestA/two"}
{"Action":"output","Package":"m/a","Test":"TestA/two","Output":"    a_test.go:7: no server: start one\n"}
{"Action":"skip","Package":"m/a","Test":"TestA/two"}
{"Action":"pass","Package":"m/a","Test":"TestA"}
{"Action":"pass","Package":"m/a","Elapsed":1.5}
{"Action":"run","Package":"m/b","Test":"TestB"}
{"Action":"run","Package":"m/b","Test":"TestB/one/of/them"}
{"Action":"output","Package":"m/b","Test":"TestB/one/of/them","Output":"    b_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"m/b","Test":"TestB/one/of/them"}
{"Action":"fail","Package":"m/b","Test":"TestB"}
{"Action":"fail","Package":"m/b"}
{"Action":"run","Package":"m/c","Test":"TestC"}
{"Action":"output","Package":"m/c","Test":"TestC","Output":"panic: test timed out after 1s\n"}
{"Action":"fail","Package":"m/c"}
{"ImportPath":"m/d [m/d.test]","Action":"build-output","Output":"d_test.go:3: undefined: x\n"}
{"Action":"fail","Package":"m/d","FailedBuild":"m/d [m/d.test]"}
{"Action":"skip","Package":"m/e"}
`

func TestSummary(t *testing.T) {
	var out strings.Builder
	if summarize(strings.NewReader(events), &out, "a note") {
		t.Error("failures are reported as a success")
	}
	for _, want := range []string{
		"ok    m/a 1.5s\n", "FAIL  m/b TestB/one/of/them 0.0s\n",
		"--- m/b TestB/one/of/them\n    b_test.go:9: got 1, want 2\n",
		"--- m/c\npanic: test timed out after 1s\n", "--- m/d\nd_test.go:3: undefined: x\n",
		"     1  no server: start one (TestA/two)\n",
		"\nengines:\n  TestA/one: SQLite 3\n\na note\n\n1 passed, 3 failed, 1 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &out)
		}
	}
}

func TestSummaryOfNothingIsAFailure(t *testing.T) {
	for events, want := range map[string]bool{
		"":                                  false,
		`{"Action":"skip","Package":"m/e"}`: false,
		`{"Action":"pass","Package":"m/a","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"m/a"}`: true,
	} {
		if got := summarize(strings.NewReader(events), &strings.Builder{}); got != want {
			t.Errorf("%s: success is %v, want %v", events, got, want)
		}
	}
}
