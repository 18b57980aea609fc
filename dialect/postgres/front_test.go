package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// A line is a queue whose tasks say by their kind when they were put in.
type line struct {
	t *testing.T
	s *dialect.Session
}

// put enqueues a task that has been due for a while.
func (l line) put(kind string, dueFor time.Duration) {
	l.t.Helper()
	args := dialect.Args{"queue": "q", "id": dialect.Col[uuid.UUID]{uuid.Must(uuid.NewV7())}, "reference": dialect.Col[*string]{nil}, "kind": dialect.Col[string]{kind},
		"priority": dialect.Col[int64]{5}, "max_attempts": dialect.Col[int64]{9}, "at": dialect.Col[*int64]{nil},
		"delay": dialect.Col[int64]{-dueFor.Microseconds()}, "headers": dialect.Col[*string]{nil}, "payload": dialect.Col[[]byte]{nil}}
	l.do(func(ctx context.Context, c dialect.Conn) error {
		_, err := l.s.QueryBatch(ctx, c, l.s.Statements.Insert, args, 1)
		return err
	})
}

func (l line) do(f func(ctx context.Context, c dialect.Conn) error) {
	l.t.Helper()
	if err := l.s.Do(l.t.Context(), f); err != nil {
		l.t.Fatal(err)
	}
}

// takes checks out one task, under a lease, and holds that it is of this kind; "" is none.
func (l line) takes(want string, lease time.Duration) {
	l.t.Helper()
	rows, err := Dialect{}.Checkout(l.t.Context(), l.s, dialect.CheckoutRequest{
		Strategy: dialect.SkipLocked, Queue: "q", Limit: 1, Lease: lease, Holder: uuid.NewString(), Expired: true})
	if err != nil {
		l.t.Fatal(err)
	}
	kind := ""
	if len(rows) > 0 {
		kind = rows[0].Kind
	}
	if kind != want {
		l.t.Errorf("took %q, want %q", kind, want)
	}
}

// next holds whether something is said to be due.
func (l line) next(due bool) {
	l.t.Helper()
	l.do(func(ctx context.Context, c dialect.Conn) error {
		rows, err := Dialect{}.Next(ctx, l.s, c, "q")
		if err == nil && (rows[0].Due != nil && *rows[0].Due <= rows[0].Now) != due {
			l.t.Errorf("due at %v by %d, want due %v", rows[0].Due, rows[0].Now, due)
		}
		return err
	})
}

func (l line) front() *front {
	return (&checkout{s: l.s, r: dialect.CheckoutRequest{Queue: "q"}}).front()
}
func (l line) working() *working {
	return (&checkout{s: l.s, r: dialect.CheckoutRequest{Queue: "q"}}).working()
}

// slow pretends that looks from the start have been slow, and that the last one ended a while ago.
func (l line) slow(ago time.Duration) {
	f, w := l.front(), l.working()
	f.slow, f.until = true, time.Now().Add(frontMost-ago)
	w.slow = true
}

// looks makes a look from the start that takes a while and finds nothing, in a table that is said to have many dead rows or has none.
func (l line) looks(took time.Duration, dead bool) {
	l.t.Helper()
	c := &checkout{s: l.s, r: dialect.CheckoutRequest{Queue: "q", Limit: 1, Lease: time.Hour, Holder: "h"}}
	_, err := c.fromFront(1, func(name string, args dialect.Args) (rows []dialect.Row, err error) {
		if name == "dead" && dead {
			return make([]dialect.Row, 1), nil
		}
		return l.s.Ask(l.t.Context(), l.s.Statements.Checkout[name], args)
	}, func(dialect.Args) ([]dialect.Row, error) {
		time.Sleep(took)
		return nil, nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// A small checkout takes what is due longest, whenever it came, also on a machine on which everything is slow.
func TestSmallCheckoutsKeepTheOrder(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		l := line{t, migrated(t, dsn)}
		l.looks(slowLook+time.Millisecond, false)
		l.put("a", time.Minute)
		l.put("b", time.Second)
		l.takes("a", time.Hour)
		l.put("late", time.Hour)
		l.takes("late", time.Hour)
		l.takes("b", time.Hour)
		l.takes("", time.Hour)
		if l.front().since != nil {
			t.Error("there is a front, with nothing slow")
		}
	})
}

// When looks from the start are slow, checkouts and questions begin at the front; what came to stand before it is found when the front is
// over, and not lost.
func TestTheFrontIsPassedWhenItIsOver(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		l := line{t, migrated(t, dsn)}
		l.put("a", time.Minute)
		l.put("b", time.Second)
		l.slow(0)
		l.takes("a", time.Hour) // there is no front yet: from the start, which is the front from then on if that was slow
		l.slow(0)
		l.front().pass(time.Now().Add(-30 * time.Second).UnixMicro())
		l.put("late", time.Hour)
		l.next(true)
		l.takes("b", time.Hour)
		l.next(false)
		l.takes("", time.Hour)
		l.slow(frontMost + time.Second)
		l.next(true)
		l.takes("late", time.Hour)
		l.next(false)
	})
}

// An empty search from the start that was slow moves the front close to now, and what comes then is found at once, also when its
// transaction took a while.
func TestTheFrontMovesOverAnEmptyQueue(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		l := line{t, migrated(t, dsn)}
		l.looks(slowLook+time.Millisecond, true)
		if since := l.front().since; since == nil || time.Since(time.UnixMicro(since[0])) > time.Minute {
			t.Fatalf("the front is %v", since)
		}
		l.put("late", lateEnqueue/2)
		l.next(true)
		l.takes("late", time.Hour)
		l.put("new", 0)
		l.next(true)
		l.takes("new", time.Hour)
	})
}

// Leases that ran out are found also where searches for them go back no further than to the oldest task in work.
func TestLeasesThatRanOutAreFoundAmongTheTasksInWork(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		l := line{t, migrated(t, dsn)}
		l.put("long", time.Minute)
		l.takes("long", time.Hour)
		l.put("short", 0)
		l.takes("short", time.Millisecond)
		time.Sleep(2 * time.Millisecond)
		l.slow(0)
		l.takes("short", time.Millisecond)
		if at := l.working().oldest; at == 0 || at > time.Now().UnixMicro() {
			t.Errorf("the oldest was taken at %d", at)
		}
		// One that was taken before, and whose checkout committed late.
		l.do(func(ctx context.Context, c dialect.Conn) error {
			_, err := c.Exec(ctx, "UPDATE "+l.s.Names.Table("task")+" SET updated = 1, lease_until = 2 WHERE kind = 'long'")
			return err
		})
		time.Sleep(2 * time.Millisecond)
		l.takes("short", time.Hour)
		l.takes("", time.Hour)
		l.working().until = time.Now().Add(-time.Millisecond)
		l.next(true)
		l.takes("long", time.Hour)
	})
}
