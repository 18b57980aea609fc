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
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/cases"
)

// defaultParallel is how many cases run at once: they mostly wait for leases to expire and for lost connections.
const defaultParallel = 6

// ErrNoCase is returned by Check if Harness.Match matches no case.
var ErrNoCase = errors.New("conformance: no case matches")

// A Progress receives the reports of Check while it runs.
type Progress struct {
	// Report has everything except the results and their duration; it is complete before the first case.
	Report Report
	Tables string // the beginning of the names of this run's tables
	Total  int    // the total number of results
	Done   int    // the number of results so far
	// Result is the latest result, or nil before the first.
	Result *Result
}

// Check runs the cases, Harness.Parallel of them at once, and returns the report. It calls progress, unless that is
// nil, once before the first case and then for each result, never concurrently.
//
// A broken law is not an error. Check returns an error if nothing could be tested: an error of dbq.Open, ErrOption
// for a strategy that the server does not support, or ErrNoCase. When ctx ends, the cases end and remove their
// tables. The report then has the cases that had ended, and the error is ctx's.
func Check(ctx context.Context, h Harness, progress func(Progress)) (Report, error) {
	ctx = admin.WithOrigin(ctx, admin.Origin{}) // the cases record changes under names of their own
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

// end adds the results to a report, and sweeps.
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

// runAll runs the jobs in parallel, except those that load the machine, which it runs last and one by one. The
// results are in the jobs' order. If a job had not ended before ctx, its result is empty.
func (s *suite) runAll(ctx context.Context, jobs []job, tell func(Result)) []Result {
	out := make([]Result, len(jobs))
	var mu sync.Mutex
	do := func(i int) {
		r := s.runJob(ctx, jobs[i])
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil { // otherwise the case may have failed, or passed, only because of ctx
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

// runJob runs a case in its own directory.
func (s *suite) runJob(ctx context.Context, j job) Result {
	dir, remove, err := tempDir()
	if err != nil {
		return Result{Case: caseOf(j.Case), Strategy: j.strategy, Failures: []string{err.Error()}}
	}
	defer remove()
	return s.run(ctx, j.Case, j.strategy, dir, nil)
}
