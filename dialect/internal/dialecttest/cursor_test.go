package dialecttest

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit/search"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// A queue is one whose tasks have a kind that says when they were enqueued.
type queue struct {
	t *testing.T
	s *sqlrun.Session
}

// checkoutsBeginAtCursor checks that a dialect's checkouts, and its query for when something is due, keep the order
// while searches from the start of a queue are quick, begin at the search.Cursor when they are not, and lose nothing.
// open makes a session on tables of its own; longAgo is that of an engine.
func checkoutsBeginAtCursor(t *testing.T, open func(t *testing.T) *sqlrun.Session, longAgo string) {
	t.Helper()
	laws := map[string]func(q queue){
		"a small checkout takes what is due longest, whenever it came": func(q queue) {
			q.searched(time.Minute, false) // the machine was slow
			q.put("a", time.Minute)
			q.put("b", time.Second)
			q.takes("a", time.Hour)
			q.put("late", time.Hour)
			q.takes("late", time.Hour)
			q.takes("b", time.Hour)
			q.takes("", time.Hour)
		},
		"what comes before the cursor is found when that has expired": func(q queue) {
			q.searched(time.Minute, true)
			q.put("a", time.Second)
			q.put("late", time.Hour)
			q.next(true)
			q.takes("a", time.Hour)
			q.next(false)
			q.takes("", time.Hour)
			search.CursorOf(&q.s.Session, "q").Reset()
			q.next(true)
			q.takes("late", time.Hour)
			q.next(false)
		},
		"what is reported due is found by the next checkout, also before the cursor": func(q queue) {
			q.putMany(100, time.Minute)
			q.takesMany(100, 100)
			q.putMany(20, time.Second)
			q.takesMany(100, 20)
			q.put("late", time.Hour) // its transaction committed late
			q.next(true)
			q.takesMany(100, 1)
		},
		"what comes to an empty queue is found at once, also when its transaction took a while": func(q queue) {
			q.searched(time.Minute, true)
			q.put("late", 2*time.Second)
			q.next(true)
			q.takes("late", time.Hour)
			q.put("new", 0)
			q.next(true)
			q.takes("new", time.Hour)
		},
		"large checkouts go on where they were": func(q queue) {
			for range 3 {
				q.putMany(100, time.Minute)
			}
			q.takesMany(100, 100)
			q.put("late", time.Hour)
			q.takesMany(100, 100)
			search.CursorOf(&q.s.Session, "q").Reset()
			q.takesMany(100, 100)
			search.CursorOf(&q.s.Session, "q").Reset()
			q.takesMany(100, 1)
		},
		"expired leases are found also where searches go back no further than the oldest leased task": func(q queue) {
			q.put("long", time.Minute)
			q.takes("long", time.Hour)
			q.put("short", 0)
			q.takes("short", time.Millisecond)
			time.Sleep(2 * time.Millisecond)
			search.ExpiredCursorOf(&q.s.Session, "q").SetSlow(true)
			q.takes("short", time.Millisecond)
			q.change(q.s.Names.Filler()(longAgo)) // its checkout committed late
			time.Sleep(2 * time.Millisecond)
			q.takes("short", time.Hour)
			q.takes("", time.Hour)
			search.ExpiredCursorOf(&q.s.Session, "q").Reset()
			q.next(true)
			q.takes("long", time.Hour)
		},
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(queue{t, open(t)})
		})
	}
}

// put enqueues a task that has been due for a while.
func (q queue) put(kind string, dueFor time.Duration) { q.putSome(1, kind, dueFor) }

func (q queue) putMany(n int, dueFor time.Duration) { q.putSome(n, "many", dueFor) }

func (q queue) putSome(n int, kind string, dueFor time.Duration) {
	q.t.Helper()
	args := newTasks(fresh(n))
	args["kind"], args["delay"] = column(n, kind), column(n, -dueFor.Microseconds())
	q.do(func(ctx context.Context, c dialect.Conn) error {
		_, err := q.s.QueryBatch(ctx, c, q.s.Texts.Insert, args, n)
		return err
	})
}

func (q queue) change(text string) {
	q.t.Helper()
	q.do(func(ctx context.Context, c dialect.Conn) error {
		_, err := c.Exec(ctx, text)
		return err
	})
}

func (q queue) do(f func(ctx context.Context, c dialect.Conn) error) {
	q.t.Helper()
	if err := q.s.Do(q.t.Context(), f); err != nil {
		q.t.Fatal(err)
	}
}

func (q queue) take(n int, lease time.Duration) []dialect.Row {
	q.t.Helper()
	leased, err := q.s.Dialect.Checkout(q.t.Context(), &q.s.Session, dialect.CheckoutRequest{
		Strategy: dialect.SkipLocked, Queue: "q", Limit: n, Lease: lease, Holder: uuid.NewString(),
		Search: dialect.ExpiredFirst})
	if err != nil {
		q.t.Fatal(err)
	}
	return leased.Rows
}

// takes checks out one task, under a lease, and checks that it is of this kind; "" is none.
func (q queue) takes(want string, lease time.Duration) {
	q.t.Helper()
	kind := ""
	if rows := q.take(1, lease); len(rows) > 0 {
		kind = rows[0].Kind
	}
	if kind != want {
		q.t.Errorf("took %q, want %q", kind, want)
	}
}

// takesMany checks out up to n tasks, and checks how many there were.
func (q queue) takesMany(n, want int) {
	q.t.Helper()
	if got := len(q.take(n, time.Hour)); got != want {
		q.t.Errorf("took %d tasks, want %d", got, want)
	}
}

// next checks whether a task is reported due.
func (q queue) next(due bool) {
	q.t.Helper()
	q.do(func(ctx context.Context, c dialect.Conn) error {
		rows, err := q.s.Next(ctx, c, "q")
		if err == nil && (rows[0].Due != nil && *rows[0].Due <= rows[0].Now) != due {
			q.t.Errorf("due at %v by %d, want due %v", rows[0].Due, rows[0].Now, due)
		}
		return err
	})
}

// searched pretends that a search from the start took a while and found nothing, among many dead tuples or none.
func (q queue) searched(took time.Duration, deadTuples bool) {
	q.t.Helper()
	ask := func(text string, args dialect.Args) ([]dialect.Row, error) {
		return q.s.Read(q.t.Context(), text, args)
	}
	err := search.CursorOf(&q.s.Session, "q").
		Begin(1).
		Found(dialect.CheckoutResult{}, took, func() (bool, error) { return deadTuples, nil },
			search.Now(&q.s.Session, ask))
	if err != nil {
		q.t.Fatal(err)
	}
}
