package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/cases"
)

// defaultParallel is how many cases run at once: most of their time they wait, for leases and for lost connections.
const defaultParallel = 6

// ErrNoCase is returned by Check if Harness.Match matches no case.
var ErrNoCase = errors.New("conformance: no case matches")

// A Progress receives what Check reports while it runs.
type Progress struct {
	// Report is known before the first case: everything but the results and their duration.
	Report Report
	Tables string // how the names of this run's tables begin
	Total  int    // the number of results in all
	Done   int    // how many of them there are
	// Result is the latest one, nil before the first.
	Result *Result
}

// Check runs the cases, Harness.Parallel of them at once, and returns the report. It calls progress, unless that is
// nil, once before the first case and then for each result, never concurrently.
//
// A broken law is not an error. The other errors mean that nothing could be tested: those of dbq.Open, ErrOption for a
// strategy that the server does not support, and ErrNoCase. When ctx ends so do the cases. What they made is removed,
// the report holds the cases that had ended, and the error is ctx's.
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
		return rep, fmt.Errorf("%w %q: it is matched with group/name, and the groups are %s", ErrNoCase, rep.Match,
			strings.Join(groupNames(), ", "))
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

// begin probes the server and begins its report.
func (s *suite) begin(ctx context.Context, dir string) (Report, error) {
	server, family, strategies, err := s.probe(ctx, dir)
	if err != nil {
		return Report{}, err
	}
	s.started, s.dir = time.Now(), dir
	rep := Report{
		Product: server.Product, Version: server.Version, Pooler: server.Pooler, Dialect: family, DBQ: dbq.Version(),
		Strategies: strategies,
		Started:    s.started.UTC().Truncate(time.Second), Seed: s.seed, Load: s.h.Load,
	}
	if s.h.Match != nil {
		rep.Match = s.h.Match.String()
	}
	return rep, nil
}

// end adds the results of the cases that were run to a report, and sweeps.
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
	for _, c := range cases.All() {
		names = append(names, c.Group)
	}
	return slices.Compact(names)
}

// runAll runs the jobs: those that load the machine last and one by one, the others side by side. The results are in
// the jobs' order; of those that did not come to their end before ctx's there is only an empty one.
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
		if !j.Alone && ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	all.Wait()
	for i, j := range jobs {
		if j.Alone && ctx.Err() == nil {
			do(i)
		}
	}
	return out
}

// runJob runs a case in a folder of its own.
func (s *suite) runJob(ctx context.Context, j job) Result {
	dir, remove, err := tempDir()
	if err != nil {
		return Result{Case: caseOf(j.Case), Strategy: j.strategy, Failures: []string{err.Error()}}
	}
	defer remove()
	return s.run(ctx, j.Case, j.strategy, dir, nil)
}
