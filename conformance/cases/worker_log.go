package cases

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// logCases are about a worker's log during an outage.
func logCases() []Case {
	return inGroup("Worker",
		Case{Name: "LogCountsAnIncident", Once: true, run: workerLog,
			Law: "An outage of the database is one line in a worker's log, and its end another; the leases lost and the " +
				"tasks taken over because of it are a few lines with their number."},
	)
}

// A logRecorder keeps what is logged at INFO and above.
type logRecorder struct {
	mu    sync.Mutex
	lines []slog.Record
}

func (*logRecorder) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (b *logRecorder) WithAttrs([]slog.Attr) slog.Handler         { return b }
func (b *logRecorder) WithGroup(string) slog.Handler              { return b }

func (b *logRecorder) Handle(_ context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, r)
	return nil
}

// count is how many lines have a text in their message, and how many tasks these count.
func (b *logRecorder) count(text string) (lines, tasks int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.lines {
		if !strings.Contains(r.Message, text) {
			continue
		}
		lines++
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "tasks" {
				tasks += int(a.Value.Int64())
			}
			return true
		})
	}
	return lines, tasks
}

func workerLog(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	const n = 60
	ids := t.enqueueMany(direct.Queue("work"), n, nil)
	var log logRecorder
	var began atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: c.Queue("work"), Concurrency: n, Lease: time.Second,
		PollMax:   100 * time.Millisecond,
		Retention: dbq.KeepForever(), Logger: slog.New(&log),
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			if began.Add(1) > n { // a second time, whether or not the first one counts as an attempt
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})})
	t.eventually("all handlers begin", func() bool { return began.Load() == n })
	before, _ := log.count("does not answer") // a busy machine may have been too slow for a renewal
	p.GoDown()
	t.eventually("the log counts the lost leases", func() bool {
		_, tasks := log.count("leases lost")
		return tasks >= n
	})
	if lines, _ := log.count("does not answer"); lines > before+1 || lines == 0 {
		t.Errorf("the log says %d times that the database does not answer, want once", lines-before)
	}
	p.Heal()
	t.eventually("all tasks end", func() bool { return t.idle(t.ctx, direct) })
	for _, id := range ids {
		t.wantState(direct, id, dbq.StateCompleted)
	}
	stop() // what is gathered is written by then
	if lines, _ := log.count("answers again"); lines == 0 {
		t.Errorf("the log does not say that the database answers again")
	}
	lost := t.takeovers(direct, ids) // more than n, if the machine also stood still for the time of a lease
	for _, text := range []string{"leases lost", "took over tasks"} {
		if lines, tasks := log.count(text); tasks != lost || lines > lost/6 {
			t.Errorf("%d lines with %q count %d tasks, want a few that count %d", lines, text, tasks, lost)
		}
	}
}

// takeovers returns how often some tasks were taken over because a lease had expired.
func (t *test) takeovers(c *dbq.Client, ids []uuid.UUID) (n int) {
	for _, id := range ids {
		attempts, err := admin.New(c).Attempts(t.ctx, id)
		t.must(err)
		for _, a := range attempts {
			if a.Outcome == dbq.AttemptCrashed || a.Outcome == dbq.AttemptLapsed {
				n++
			}
		}
	}
	if n < len(ids) {
		t.Errorf("%d tasks were taken over, want at least %d", n, len(ids))
	}
	return n
}
