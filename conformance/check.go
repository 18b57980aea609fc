package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// defaultParallel is how many cases run at once: most of their time they wait, for leases and for lost connections.
const defaultParallel = 6

// ErrNoCase is returned by Check when Harness.Match matches no case.
var ErrNoCase = errors.New("conformance: no case matches")

// Progress is what Check tells as it goes.
type Progress struct {
	// Report is what is known before the first case: all but the results and the time they took.
	Report Report
	Tables string // how the names of this run's tables begin
	Total  int    // results to come in all
	Done   int    // of them, those that came
	// Result is the latest one, nil the first time.
	Result *Result
}

// Check executes the cases, Harness.Parallel of them at once, and reports. progress, if not nil, is called once before the first case and
// then for each result as it comes, never twice at once.
//
// When ctx ends so do the cases, and what they made is removed as always; the error is ctx's then, and the report holds the cases that
// had ended before. Other errors mean that nothing could be tested: those of dbq.Open, ErrOption for a strategy that the server cannot do,
// ErrNoCase. A broken law is no error.
func Check(ctx context.Context, h Harness, progress func(Progress)) (Report, error) {
	s := newSuite(h)
	dir, remove, err := tempDir()
	if err != nil {
		return Report{}, err
	}
	defer remove()
	rep, err := s.begin(ctx, dir)
	if err != nil {
		return Report{}, fmt.Errorf("conformance: the server cannot be tested: %w", err)
	}
	jobs := s.jobs(rep.Strategies)
	if len(jobs) == 0 {
		return rep, fmt.Errorf("%w %q: it is matched with group/name, and the groups are %s", ErrNoCase, rep.Match, strings.Join(groupNames(), ", "))
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	news := Progress{Report: rep, Tables: s.prefix, Total: len(jobs)}
	progress(news)
	s.end(ctx, &rep, s.runAll(ctx, jobs, func(r Result) {
		news.Done++
		news.Result = &r
		progress(news)
	}))
	return rep, ctx.Err()
}

// begin finds out what is to be tested, and begins its report.
func (s *suite) begin(ctx context.Context, dir string) (Report, error) {
	server, family, strategies, err := s.probe(ctx, dir)
	if err != nil {
		return Report{}, err
	}
	s.started, s.dir = time.Now(), dir
	rep := Report{
		Product: server.Product, Version: server.Version, Pooler: server.Pooler, Dialect: family, DBQ: version(), Strategies: strategies,
		Started: s.started.UTC().Truncate(time.Second), Seed: s.seed, Load: s.h.Load,
	}
	if s.h.Match != nil {
		rep.Match = s.h.Match.String()
	}
	return rep, nil
}

// end ends a report with what came of the cases that were run, and sweeps.
func (s *suite) end(ctx context.Context, rep *Report, results []Result) {
	for _, r := range results {
		if r.Case.Name != "" {
			rep.Results = append(rep.Results, r)
		}
	}
	rep.Duration = time.Since(s.started).Round(time.Millisecond)
	rep.Leftovers = s.sweep(ctx)
}

func groupNames() (names []string) {
	for _, cases := range groups() {
		names = append(names, cases[0].Group)
	}
	return names
}

// runAll runs the jobs: those that load the machine last and one by one, the others side by side. The results are in the jobs' order; of
// those that did not come to their end before ctx's there is only an empty one.
func (s *suite) runAll(ctx context.Context, jobs []job, tell func(Result)) []Result {
	out := make([]Result, len(jobs))
	var mu sync.Mutex
	do := func(i int) {
		r := s.runJob(ctx, jobs[i])
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil { // else the case may have failed, or held, for no other reason
			out[i] = r
			tell(r)
		}
	}
	next := make(chan int)
	var all sync.WaitGroup
	for range s.h.Parallel {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i, j := range jobs {
		if !j.alone && ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	all.Wait()
	for i, j := range jobs {
		if j.alone && ctx.Err() == nil {
			do(i)
		}
	}
	return out
}

// runJob gives a case its own folder.
func (s *suite) runJob(ctx context.Context, j job) Result {
	dir, remove, err := tempDir()
	if err != nil {
		return Result{Case: j.Case, Strategy: j.strategy, Failures: []string{err.Error()}}
	}
	defer remove()
	return s.run(ctx, j.Case, j.strategy, dir, nil)
}

// module is where dbq's own version stands in a program's build information.
const module = "github.com/dbq-go/dbq"

// version is dbq's version in this program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	found := ""
	if info.Main.Path == module {
		found = info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			found = d.Version
		}
	}
	if found == "" || found == "(devel)" {
		return "devel"
	}
	return found
}
