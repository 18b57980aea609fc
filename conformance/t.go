package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// T is what a case gets: the part of *testing.T it needs, so that Check works outside go test, and clients to test with.
// A case fails by Errorf, or by Fatalf, which ends it. Its methods may be called from several goroutines, except Fatalf and
// Skipf, which are for the case's own.
type T struct {
	ctx      context.Context
	suite    *suite
	strategy dialect.Strategy
	name     string // the case's full name
	dsn      string
	dir      string
	prefix   string
	log      func(string)
	rand     *rand.Rand
	programs int // that were started

	mu        sync.Mutex
	failures  []string
	skipped   string
	cleanups  []func()
	made      []made
	clients   []*dbq.Client
	conflicts int64 // of worker processes
}

// skip is how Skipf and Fatalf end a case.
type stop struct{}

// run executes one case, with all its clients and tables removed afterwards.
func (s *suite) run(ctx context.Context, c Case, strategy dialect.Strategy, dir string, log func(string)) (r Result) {
	r = Result{Case: c, Strategy: strategy}
	if reason, known := s.h.Known[c.FullName()]; known {
		r.Skipped = "known: " + reason
		return r
	}
	if c.small {
		// MariaDB locks the first row behind a range for a moment, so that a neighbour's task on the same table is passed by.
		s.smallRuns.Lock()
		defer s.smallRuns.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	name := fnv.New64a()
	name.Write([]byte(string(strategy) + "/" + c.FullName()))
	t := &T{ctx: ctx, suite: s, strategy: strategy, name: c.FullName(), dir: dir, log: log,
		rand: rand.New(rand.NewPCG(s.seed, name.Sum64()))}
	if c.small {
		t.dsn, t.prefix = s.shared()
	} else {
		t.dsn, t.prefix = s.h.DSN(dir), s.newPrefix()
		t.makes(s.tables(t.dsn, t.prefix))
	}
	start := time.Now()
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine's work by a panic of its own
		defer close(done)
		defer t.cleanup()
		defer func() {
			if p := recover(); p != nil && p != (stop{}) {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		c.run(t)
	}()
	<-done
	r.Duration = time.Since(start)
	r.Failures, r.Skipped, r.Conflicts = t.failures, t.skipped, t.conflicts
	for _, c := range t.clients {
		r.Conflicts += c.Conflicts()
	}
	return r
}

// cleanup closes what the case opened and removes what it made, also when the case's time is up.
func (t *T) cleanup() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	for _, m := range t.made {
		if err := m.remove(t.ctx); err != nil {
			t.Errorf("cleaning up %s: %v", m.name, err)
			t.suite.leave(m)
		}
	}
}

// makes notes what is to be removed from the database after the case, when its clients are closed.
func (t *T) makes(m made) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made = append(t.made, m)
}

// Context ends when the case's time is up.
func (t *T) Context() context.Context { return t.ctx }

// Errorf notes a failure and goes on.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failures) < 20 { // enough to see what is wrong
		t.failures = append(t.failures, fmt.Sprintf(format, args...))
	}
}

// Fatalf notes a failure and ends the case.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(stop{})
}

// Skipf ends the case, saying why it cannot be checked here.
func (t *T) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.skipped = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	panic(stop{})
}

// Logf is shown with a failure, or by go test -v.
func (t *T) Logf(format string, args ...any) {
	if t.log != nil {
		t.log(fmt.Sprintf(format, args...))
	}
}

// Cleanup runs f after the case, the latest first.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// options are those of every client of this case, before its own.
func (t *T) options(more ...dbq.Option) []dbq.Option {
	return append([]dbq.Option{dbq.WithPrefix(t.prefix), dbq.WithStrategy(t.strategy), dbq.WithLogger(quietLog)}, more...)
}

// Open is a new client on this case's own tables, which it makes if need be. It is closed after the case.
func (t *T) Open(opts ...dbq.Option) *dbq.Client {
	return t.OpenDSN(t.dsn, opts...)
}

// OpenDSN is Open by another way to the same database.
func (t *T) OpenDSN(dsn string, opts ...dbq.Option) *dbq.Client {
	c, err := dbq.Open(t.ctx, dsn, t.options(append([]dbq.Option{dbq.WithMigrate()}, opts...)...)...)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.adopt(c)
	return c
}

// adopt closes a client after the case, and counts its conflicts.
func (t *T) adopt(c *dbq.Client) {
	t.Cleanup(func() { c.Close() })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients = append(t.clients, c)
}

// Must ends the case on an error.
func (t *T) Must(err error) {
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// WantErr notes a failure unless errors.Is(err, want).
func (t *T) WantErr(what string, err, want error) {
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}
