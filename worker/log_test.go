package worker_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// TestMain keeps what is logged by default, as on purpose in many tests, out of their output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	// The default of go test -parallel. Tests mostly wait, and not in a bubble of testing/synctest, because the database
	// has a clock of its own.
	_ = flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}

// logbook is a handler that keeps the lines of INFO and above as "LEVEL message", with their attributes beside them.
type logbook struct {
	merges bool // lines that count tasks, one after the other: a busy machine may take more than a window for a few tasks
	mu     sync.Mutex
	lines  []logged
}

type logged struct {
	text  string
	attrs map[string]string
}

func (*logbook) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (b *logbook) WithAttrs([]slog.Attr) slog.Handler         { return b }
func (b *logbook) WithGroup(string) slog.Handler              { return b }

func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	l := logged{r.Level.String() + " " + r.Message, map[string]string{}}
	r.Attrs(func(a slog.Attr) bool {
		l.attrs[a.Key] = a.Value.String()
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.lines) - 1; b.merges && last >= 0 && b.lines[last].text == l.text && l.attrs["tasks"] != "" {
		n, _ := strconv.Atoi(b.lines[last].attrs["tasks"])
		more, _ := strconv.Atoi(l.attrs["tasks"])
		l.attrs["tasks"] = strconv.Itoa(n + more)
		b.lines[last] = l
		return nil
	}
	b.lines = append(b.lines, l)
	return nil
}

// like are the lines whose message has a text in it.
func (b *logbook) like(text string) (found []logged) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		if strings.Contains(l.text, text) {
			found = append(found, l)
		}
	}
	return found
}

// next waits for line number n, and compares it. Of the attributes it compares those that are wanted.
func (b *logbook) next(t *testing.T, n int, text string, attrs ...string) {
	t.Helper()
	check.Eventually(t, "line "+text, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.lines) > n
	})
	line := func() logged {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.lines[n]
	}
	for _, want := range attrs {
		if tasks, ok := strings.CutPrefix(want, "tasks="); ok {
			check.Eventually(t, text+" counts "+tasks, func() bool { return line().attrs["tasks"] == tasks })
		}
	}
	got := line()
	if got.text != text {
		t.Fatalf("line %d is %q %v, want %q", n, got.text, got.attrs, text)
	}
	for _, want := range attrs {
		key, value, _ := strings.Cut(want, "=")
		has, ok := got.attrs[key]
		start, open := strings.CutSuffix(value, "*")
		if !ok || has != value && !(open && strings.HasPrefix(has, start)) {
			t.Errorf("line %d %q has %s=%q, want %q", n, got.text, key, has, value)
		}
	}
}

// absent is SQLite that cannot be reached for checkouts while away is set.
type absent struct {
	sqlite.Dialect
	away *atomic.Bool
}

func (d absent) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	if d.away.Load() {
		return dialect.CheckoutResult{}, driver.ErrBadConn
	}
	return d.Dialect.Checkout(ctx, s, r)
}

func openAbsent(t *testing.T) (*dbq.Queue, *atomic.Bool) {
	t.Helper()
	pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	away := new(atomic.Bool)
	c, err := dbq.New(t.Context(), pool.Write, absent{away: away}, dbq.WithMigrate(), dbq.WithName("web"))
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c.Queue("q"), away
}

// The log of a worker's day: nothing that an operator should know is missing or repeated.
func TestLogOfAWorkersLife(t *testing.T) {
	t.Parallel()
	q, away := openAbsent(t)
	ctx, c := t.Context(), q.Client()
	log := logbook{merges: true}
	var power worker.Switch
	leased := make(chan struct{}, 3)
	stop := start(t, worker.Worker{Queue: q, ID: "w1", Logger: slog.New(&log), Switch: &power, Concurrency: 3,
		Tuning: worker.Tuning{ReportInterval: time.Hour, PollMax: 20 * time.Millisecond}, Retention: dbq.KeepForever(),
		Backoff: func(int) time.Duration { return time.Millisecond },
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			switch task.Kind {
			case "fails":
				return errors.New("no luck")
			case "panics":
				panic("what now")
			case "parks":
				return dbq.Parked(errors.New("not yet"))
			case "revoked":
				leased <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})})
	log.next(t, 0, "INFO worker: started", "worker=w1", "dialect=sqlite", "server=SQLite*", "strategy=cas",
		"concurrency=3", "lease=30s", "version=devel", "paused=false")

	enqueue(t, q, 1, dbq.NewTask{Kind: "fails", MaxAttempts: 2, Payload: []byte("secret")})
	log.next(t, 1, "WARN worker: attempt failed", "kind=fails", "attempt=1", "max_attempts=2", "error=no luck",
		"next=in 1ms")
	log.next(t, 2, "ERROR worker: task went to POISON", "kind=fails", "attempt=2", "max_attempts=2", "error=no luck")

	enqueue(t, q, 1, dbq.NewTask{Kind: "panics", MaxAttempts: 1})
	log.next(t, 3, "ERROR worker: handler panicked", "kind=panics", "panic=what now", "stack=goroutine*")
	log.next(t, 4, "ERROR worker: task went to POISON", "kind=panics", "error=panic: what now")

	enqueue(t, q, 1, dbq.NewTask{Kind: "parks"})
	log.next(t, 5, "WARN worker: task parked until an operator acts", "kind=parks", "attempt=1", "error=not yet")

	refuse(t, q, "new.state = 4")
	enqueue(t, q, 1, dbq.NewTask{Kind: "refused"})
	log.next(t, 6, "ERROR worker: the database refuses to settle a task", "event=complete", "instead=poison", "error=*")
	log.next(t, 7, "ERROR worker: task went to POISON", "kind=refused")

	revoked := enqueue(t, q, 3, dbq.NewTask{Kind: "revoked"})
	for range revoked {
		<-leased
	}
	for _, id := range revoked {
		check.OK(t, admin.New(c).Operate(ctx, admin.Revoke, id, admin.By("ann"), admin.Reason("wrong list")))
	}
	log.next(t, 8, "INFO worker: tasks withdrawn by operators", "tasks=3",
		"cause=worker: the task was revoked: revoked by ann: wrong list*")

	power.Pause()
	log.next(t, 9, "INFO worker: paused", "by=switch")
	enqueue(t, q, 3, dbq.NewTask{})
	orphans, err := access.ForWorker(q, "w0").Checkout(ctx, 3, dbq.MinLease)
	if err != nil || len(orphans) != 3 {
		t.Fatalf("got %d tasks, %v", len(orphans), err)
	}
	over := orphans[0].Lease.Until.Add(10 * time.Millisecond)
	check.Eventually(t, "their leases expire", func() bool { return time.Now().After(over) })
	power.Resume()
	log.next(t, 10, "INFO worker: resumed", "by=switch")
	log.next(t, 11, "WARN worker: took over tasks whose leases expired", "tasks=3", "from=w0")

	away.Store(true)
	last := enqueue(t, q, 1, dbq.NewTask{})[0]
	log.next(t, 12, "WARN worker: the database does not answer; trying again", "operation=check out", "error=*")
	away.Store(false)
	log.next(t, 13, "INFO worker: the database answers again", "after=*", "failures=*")
	check.Eventually(t, "nothing is leased", func() bool { return get(t, q, last).State == dbq.StateCompleted })

	if err := stop(); err != nil {
		t.Error(err)
	}
	log.next(t, 14, "INFO worker: stopping", "running=0")
	log.next(t, 15, "INFO worker: stopped", "poisoned=3", "lost=3", "after=*")
	if len(log.lines) != 16 {
		t.Errorf("there are %d lines, want 16: %v", len(log.lines), log.lines[16:])
	}
	log.wantListed(t)
	for _, l := range log.lines {
		if text := fmt.Sprint(l); strings.Contains(text, "secret") {
			t.Errorf("a line has the payload: %s", text)
		}
	}
}

// What comes to hundreds of tasks at once is a few lines, and these count all of them.
func TestLogOfAFlood(t *testing.T) {
	t.Parallel()
	const n = 400
	windows := func(since time.Time) int { return int(time.Since(since)/time.Second) + 2 } // at most, of a second each
	t.Run("leases", func(t *testing.T) {
		t.Parallel()
		q := open(t)
		enqueue(t, q, n, dbq.NewTask{})
		var log logbook
		var begun atomic.Int64
		stop := start(t, worker.Worker{Queue: q, Concurrency: n, Logger: slog.New(&log),
			Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
				begun.Add(1)
				<-ctx.Done()
				return ctx.Err()
			})})
		check.Eventually(t, "all are leased", func() bool { return begun.Load() == n })
		all, revoked := admin.Filter{Queue: "q", Limit: n}, time.Now()
		if _, err := admin.New(q.Client()).OperateMany(t.Context(), admin.Revoke, all); err != nil {
			t.Fatal(err)
		}
		check.Eventually(t, "the lines count all", func() bool { return log.sum(t, "withdrawn", "tasks") == n })
		if err := stop(); err != nil {
			t.Error(err)
		}
		if lines := len(log.like("withdrawn")); lines > windows(revoked) || log.sum(t, "withdrawn", "tasks") != n {
			t.Errorf("%d lines about %d withdrawn tasks: %v", lines, n, log.like("withdrawn"))
		}
	})
	t.Run("failures", func(t *testing.T) {
		t.Parallel()
		q := open(t)
		enqueue(t, q, n, dbq.NewTask{MaxAttempts: 1})
		var log logbook
		started := time.Now()
		runEmpty(t, worker.Worker{Queue: q, Logger: slog.New(&log),
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				return errors.New("no luck")
			})})
		each, more := len(log.like("went to POISON")), log.sum(t, "repeated lines omitted", "count")
		if each+more != n || each > 10*windows(started) {
			t.Errorf("%d lines, and %d counted, of %d failures", each, more, n)
		}
	})
}

// sum adds up a number of all lines whose message has a text in it.
func (b *logbook) sum(t *testing.T, text, attr string) (n int) {
	for _, l := range b.like(text) {
		k, err := strconv.Atoi(l.attrs[attr])
		if err != nil {
			t.Errorf("%q has %s=%q", l.text, attr, l.attrs[attr])
		}
		n += k
	}
	return n
}
