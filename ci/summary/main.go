// Command summary reads what go test -json prints and shows it for a person: a line for each package, failures as they
// occur, and at the end the output of what failed, the reasons for skips, and the counts.
//
//	go test -json ./... | go run ./ci/summary
//
// A test with subtests is not counted unless it failed by itself. The exit status is 1 if a test failed or none passed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if !summarize(os.Stdin, os.Stdout, os.Args[1:]...) {
		os.Exit(1)
	}
}

// An event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild, Key, Value string

	Elapsed float64 // seconds
}

// A test is a test, or a package, whose Test is "".
type test struct {
	output   []string
	parent   bool // it has subtests
	failures int  // of its subtests, or of the package's tests
}

const (
	keptLines  = 400 // of a test's output
	shownLines = 60  // of them
)

// A summary counts the results of tests.
type summary struct {
	out      io.Writer
	tests    map[[2]string]*test // those that have not ended, by package and name
	passed   int
	failures []string            // the names of what failed, with the output
	skipped  map[string][]string // names, by reason
	engines  []string            // on which tests ran: what they called t.Attr("engine", …) with
}

// summarize reports whether tests passed and none failed. It prints the notes before the counts.
func summarize(in io.Reader, out io.Writer, notes ...string) bool {
	s := summary{out: out, tests: map[[2]string]*test{}, skipped: map[string][]string{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" { // what go prints itself
			fmt.Fprintln(out, lines.Text())
			continue
		}
		e.Package = cmp.Or(e.Package, e.ImportPath)
		s.add(e)
	}
	if err := lines.Err(); err != nil {
		s.failures = append(s.failures, fmt.Sprintf("--- reading the events: %v\n", err))
	}
	s.print(notes)
	return len(s.failures) == 0 && s.passed > 0
}

func (s *summary) test(pkg, name string) *test {
	key := [2]string{pkg, name}
	if s.tests[key] == nil {
		s.tests[key] = &test{}
	}
	return s.tests[key]
}

func (s *summary) add(e event) {
	t := s.test(e.Package, e.Test)
	switch e.Action {
	case "run":
		for parent := range s.parents(e) {
			parent.parent = true
		}
		return
	case "output", "build-output":
		if t.output = append(t.output, e.Output); len(t.output) > keptLines && !t.panicked() {
			t.output = t.output[1:]
		}
		return
	case "attr":
		if e.Key == "engine" {
			s.engines = append(s.engines, fmt.Sprintf("  %s: %s\n", e.Test, e.Value))
		}
		return
	case "pass":
		if e.Test == "" {
			fmt.Fprintf(s.out, "ok    %s %.1fs\n", e.Package, e.Elapsed)
		} else if !t.parent {
			s.passed++
		}
	case "skip":
		if e.Test != "" { // else a package without tests
			reason := reasonOf(t.output)
			s.skipped[reason] = append(s.skipped[reason], e.Test)
		}
	case "fail":
		if e.Test == "" {
			t.output = append(s.unfinished(e.Package), t.output...)
		}
		for parent := range s.parents(e) {
			parent.failures++
		}
		if t.failures == 0 || e.Test == "" && t.panicked() { // else the cause is reported already
			s.fail(e, t)
		}
	default:
		return
	}
	delete(s.tests, [2]string{e.Package, e.Test})
}

// parents returns the package of a test and the tests whose subtest it is. A subtest's own name may have slashes.
func (s *summary) parents(e event) iter.Seq[*test] {
	return func(yield func(*test) bool) {
		for name := e.Test; name != ""; {
			name = name[:max(0, strings.LastIndexByte(name, '/'))]
			parent := s.tests[[2]string{e.Package, name}]
			if name == "" {
				parent = s.test(e.Package, "")
			}
			if parent != nil && !yield(parent) {
				return
			}
		}
	}
}

// unfinished removes the tests of a package that have not ended, and returns the output of those that ended the
// program: a panic, or the goroutines when the time was over.
func (s *summary) unfinished(pkg string) (output []string) {
	for key, t := range s.tests {
		if key[0] != pkg || key[1] == "" {
			continue
		}
		delete(s.tests, key)
		if t.panicked() {
			output = append(output, t.output...)
		}
	}
	return output
}

func (s *summary) fail(e event, t *test) {
	output := t.output
	if e.FailedBuild != "" {
		output = s.test(e.FailedBuild, "").output
	}
	name := strings.TrimSpace(e.Package + " " + e.Test)
	fmt.Fprintf(s.out, "FAIL  %s %.1fs\n", name, e.Elapsed)
	if begin := slices.IndexFunc(output, panics); begin >= 0 {
		output = output[begin:min(len(output), begin+shownLines)]
	} else {
		output = output[max(0, len(output)-shownLines):]
	}
	s.failures = append(s.failures, "--- "+name+"\n"+strings.Join(output, ""))
}

// panicked reports whether the tests' program ended by a panic, as it does when its time is over.
func (t *test) panicked() bool { return slices.ContainsFunc(t.output, panics) }

func panics(line string) bool {
	return strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "SIGQUIT:")
}

func (s *summary) print(notes []string) {
	for _, f := range s.failures {
		fmt.Fprintf(s.out, "\n%s", f)
	}
	if len(s.skipped) > 0 {
		fmt.Fprintln(s.out, "\nskipped:")
	}
	count := 0
	for _, reason := range slices.Sorted(maps.Keys(s.skipped)) {
		names := s.skipped[reason]
		count += len(names)
		more := ""
		if len(names) > 1 {
			more = ", …"
		}
		fmt.Fprintf(s.out, "%6d  %s (%s%s)\n", len(names), reason, names[0], more)
	}
	if len(s.engines) > 0 {
		fmt.Fprintf(s.out, "\nengines:\n%s", strings.Join(slices.Sorted(slices.Values(s.engines)), ""))
	}
	for _, note := range notes {
		fmt.Fprintf(s.out, "\n%s\n", note)
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, len(s.failures), count)
}

// at is how the testing package begins a line that a test logs.
var at = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reasonOf returns the last line that a skipped test logged.
func reasonOf(output []string) string {
	for _, line := range slices.Backward(output) {
		if at.MatchString(line) {
			return strings.TrimSpace(at.ReplaceAllString(line, ""))
		}
	}
	return "no reason given"
}
