package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"sync"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// A test is one run of a case: the part of *testing.T that laws need, so that they also run outside go test, and
// clients to test with. A law is broken by Errorf, or by Fatalf, which ends the case. The methods may be called from
// several goroutines, except Fatalf, Skipf, and the methods that call them, which are for the case's own goroutine and
// the goroutines of concurrently.
type test struct {
	Env
	ctx     context.Context // ends when the case's time is up
	rand    *rand.Rand
	started int // worker processes

	mu       sync.Mutex
	result   Result
	cleanups []func()
	objects  []Object
	clients  []*dbq.Client
}

// endOfCase is the value that Skipf and Fatalf panic with.
type endOfCase struct{}

// Run runs the case, for at most Timeout, and removes its objects.
func (c Case) Run(ctx context.Context, env Env) Result {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	name := fnv.New64a()
	name.Write([]byte(string(env.Strategy) + "/" + c.FullName()))
	if env.Patience == 0 {
		env.Patience = defaultPatience
	}
	t := &test{Env: env, ctx: ctx, rand: rand.New(rand.NewPCG(env.Seed, name.Sum64()))}
	if !env.KeepTables {
		t.drops(Tables(env.DSN, env.Prefix))
	}
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine's work by a panic of its own
		defer close(done)
		defer t.cleanup()
		defer func() { t.catch(recover()) }()
		c.run(t)
	}()
	<-done
	for _, c := range t.clients {
		t.result.Conflicts += c.Stats().Conflicts
	}
	return t.result
}

// catch records a recovered panic as a failure, unless it came from Fatalf or Skipf. It reports whether there was a
// panic.
func (t *test) catch(p any) bool {
	switch p := p.(type) {
	case nil:
		return false
	case endOfCase:
	case unexpected:
		t.Errorf("unexpected error: %v", p.error)
	default:
		t.Errorf("panic: %v\n%s", p, debug.Stack())
	}
	return true
}

// cleanup closes the clients that the case opened and removes its objects, even if the case's time is up.
func (t *test) cleanup() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	for _, o := range t.objects {
		if err := o.Remove(t.ctx); err != nil {
			t.Errorf("cleaning up %s: %v", o.Name, err)
			t.result.Left = append(t.result.Left, o)
		}
	}
}

// drops registers an object to be removed from the database after the case, when its clients are closed.
func (t *test) drops(o Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects = append(t.objects, o)
}

// failed reports whether the law was broken so far.
func (t *test) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.result.Failures) > 0
}

// Errorf records a failure and continues.
func (t *test) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.result.Failures) < 20 { // enough to see the problem
		t.result.Failures = append(t.result.Failures, fmt.Sprintf(format, args...))
	}
}

// failIf records a failure if the condition is true, and continues.
func (t *test) failIf(so bool, format string, args ...any) {
	if so {
		t.Errorf(format, args...)
	}
}

// Fatalf records a failure and ends the case.
func (t *test) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(endOfCase{})
}

// Skipf ends the case with the reason why it cannot be checked here.
func (t *test) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.result.Skipped = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	panic(endOfCase{})
}

// Logf logs a line that is shown with a failure, or by go test -v.
func (t *test) Logf(format string, args ...any) {
	if t.Log != nil {
		t.Log(fmt.Sprintf(format, args...))
	}
}

// Cleanup runs f after the case, the latest first.
func (t *test) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// options are the options of every client of this case, followed by more.
func (t *test) options(more ...dbq.Option) []dbq.Option {
	return append([]dbq.Option{dbq.WithPrefix(t.Prefix), dbq.WithStrategy(t.Strategy), dbq.WithLogger(quietLog)}, more...)
}

// open opens a client on this case's tables, which it creates if need be. The client is closed after the case.
func (t *test) open(opts ...dbq.Option) *dbq.Client {
	return t.openDSN(t.DSN, opts...)
}

// openQueue opens a client and returns it with a queue of it.
func (t *test) openQueue(opts ...dbq.Option) (*dbq.Client, *dbq.Queue) {
	c := t.open(opts...)
	return c, c.Queue("q")
}

// openDSN is open with another DSN for the same database.
func (t *test) openDSN(dsn string, opts ...dbq.Option) *dbq.Client {
	return t.register(must(dbq.Open(t.ctx, dsn, t.options(append([]dbq.Option{dbq.WithMigrate()}, opts...)...)...)))
}

// register closes a client after the case, and counts its conflicts. It returns the client.
func (t *test) register(c *dbq.Client) *dbq.Client {
	t.Cleanup(func() { c.Close() })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients = append(t.clients, c)
	return c
}

// openPool opens a pool of the case's own, for clients of New.
func (t *test) openPool() dialect.Pool {
	_, pool, err := sqlrun.Open(t.ctx, t.DSN, nil)
	t.must(err)
	t.Cleanup(func() { pool.Close() })
	return pool
}

// openOn opens a client on a caller's pool.
func (t *test) openOn(db *sql.DB, d dialect.Dialect, opts ...dbq.Option) *dbq.Client {
	return t.register(must(dbq.New(t.ctx, db, d, t.options(append(opts, dbq.WithMigrate())...)...)))
}

// unexpected is the value of a panic of must.
type unexpected struct{ error }

// must ends the case on an error.
func (t *test) must(err error) { must(0, err) }

// must returns the value of a call, and ends the case if the call fails. Like Fatalf, it is for the case's own
// goroutine.
func must[T any](v T, err error) T {
	if err != nil {
		panic(unexpected{err})
	}
	return v
}

// wantErr records a failure unless errors.Is(err, want).
func (t *test) wantErr(what string, err, want error) {
	t.failIf(!errors.Is(err, want), "%s: got error %v, want %v", what, err, want)
}
