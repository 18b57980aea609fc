// Package conformance checks whether a dialect, a server version or a managed database keeps dbq's promises.
//
// The suite consists of cases. Each checks one law, a sentence that is true on every engine, and prints the law if it
// fails. Run runs the cases as subtests of a Go test; Check runs them without package testing, for programs. Cases
// that depend on the strategy run once under each strategy of the server, the others once.
//
//	func TestMain(m *testing.M) {
//		conformance.Child() // lets cases start worker processes of this very program
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			DSN: func(dir string) string { return "sqlite:" + filepath.Join(dir, "queue.db") },
//			Processes: true,
//		})
//	}
//
// The suite can miss a defect, but is meant never to fail on a dialect without defects. It does not depend on an
// engine's name: the fields of Harness exclude cases that an engine cannot run, and reports give the reason. The laws
// are in conformance/cases.
package conformance

import (
	"flag"
	"testing"

	"github.com/dbq-go/dbq/conformance/cases"
)

// A Case is one law of the suite.
type Case struct {
	Group string
	Name  string // unique within the group
	Law   string // one sentence that must be true on every engine, printed if it is not
	Slow  bool   // takes more than four seconds on some engine
}

// FullName returns the name of the case in reports: group/name.
func (c Case) FullName() string { return c.Group + "/" + c.Name }

// Cases lists every case, in the order in which they are run and reported.
func Cases() []Case {
	var out []Case
	for _, c := range cases.All() {
		out = append(out, caseOf(c))
	}
	return out
}

func caseOf(c cases.Case) Case { return Case{c.Group, c.Name, c.Law, c.Slow} }

// Child runs a worker process if the suite has started the program as one, and then does not return. Otherwise it
// does nothing. Call it first in main or TestMain: the cases that need several processes start the program again.
func Child() { cases.Child() }

// Run runs the cases as subtests named strategy/group/name. A broken law is an error of its subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Select == nil && testing.Short() {
		h.Select = Short
	}
	s := newSuite(h)
	rep, err := s.begin(t.Context(), t.TempDir())
	if err != nil {
		t.Fatalf("the server cannot be tested: %v", err)
	}
	t.Logf("%s, strategies %v, seed %d", rep.Server(), rep.Strategies, s.seed)
	jobs := s.jobs(rep.Strategies)
	if len(jobs) == 0 {
		t.Fatalf("no case is selected, of those that match %q", h.Match)
	}
	results := make([]Result, len(jobs))
	for _, strategy := range rep.Strategies {
		t.Run(string(strategy), func(t *testing.T) {
			for i, j := range jobs {
				if j.strategy != strategy {
					continue
				}
				t.Run(j.FullName(), func(t *testing.T) {
					if !j.Alone {
						t.Parallel()
					}
					r := s.run(t.Context(), j.Case, strategy, t.TempDir(), func(line string) { t.Log(line) })
					results[i] = r
					switch {
					case r.Skipped != "":
						t.Skip(r.Skipped)
					case len(r.Failures) > 0:
						t.Errorf("broken law: %s", j.Law)
						for _, f := range r.Failures {
							t.Error(f)
						}
					}
				})
			}
		})
	}
	s.end(t.Context(), &rep, results)
	if h.Report == nil {
		return
	}
	if pattern := flag.Lookup("test.run"); len(rep.Results) < len(jobs) && pattern != nil {
		rep.Match = pattern.Value.String()
	}
	h.Report(rep)
}
