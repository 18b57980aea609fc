package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
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
	dsn      string
	dir      string
	prefix   string
	log      func(string)
	rand     *rand.Rand

	mu       sync.Mutex
	failures []string
	skipped  string
	cleanups []func()
}

type suite struct {
	h    Harness
	seed uint64
}

func newSuite(h Harness) *suite {
	s := &suite{h: h, seed: h.Seed}
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano())
	}
	if s.h.Load == 0 {
		s.h.Load = 1
	}
	return s
}

func (s *suite) strategies(server dialect.Server) []dialect.Strategy {
	if len(s.h.Strategies) > 0 {
		return s.h.Strategies
	}
	return server.Strategies
}

// probe opens a client once to learn what the server is.
func (s *suite) probe(ctx context.Context, dir string) (dialect.Server, error) {
	dsn, prefix := s.h.DSN(dir), s.newPrefix()
	c, err := dbq.Open(ctx, dsn, dbq.WithPrefix(prefix), dbq.WithMigrate())
	if err != nil {
		return dialect.Server{}, err
	}
	defer c.Close()
	return c.Server(), dbq.DropTables(ctx, dsn, dbq.WithPrefix(prefix))
}

// newPrefix names tables that no other case, process or run uses.
func (s *suite) newPrefix() string {
	id := dbq.NewID()
	return fmt.Sprintf("c%x_", id[9:15]) // random bits only
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
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	name := fnv.New64a()
	name.Write([]byte(string(strategy) + "/" + c.FullName()))
	t := &T{ctx: ctx, suite: s, strategy: strategy, dsn: s.h.DSN(dir), dir: dir, prefix: s.newPrefix(), log: log,
		rand: rand.New(rand.NewPCG(s.seed, name.Sum64()))}
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
	r.Failures, r.Skipped = t.failures, t.skipped
	return r
}

func (t *T) cleanup() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 30*time.Second)
	defer cancel()
	if err := dbq.DropTables(ctx, t.dsn, dbq.WithPrefix(t.prefix)); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
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
	return append([]dbq.Option{dbq.WithPrefix(t.prefix), dbq.WithStrategy(t.strategy)}, more...)
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
	t.Cleanup(func() { c.Close() })
	return c
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

func tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "dbq-conformance-")
	return dir, func() { os.RemoveAll(dir) }, err
}
