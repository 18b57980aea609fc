package dialecttest

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

// BeginsAtTheFront holds that a dialect's checkouts, and its question when something is due, keep the order while looks from the start of a queue are quick, begin
// at the dialect.Front when they are not, and lose nothing. open makes a session on tables of its own, and old is a statement that makes the task of kind 'long' one that was taken, and whose lease ended,
// at the beginning of time.
func BeginsAtTheFront(t *testing.T, open func(t *testing.T) *dialect.Session, old func(s *dialect.Session) string) {
	laws := map[string]func(l line){
		"a small checkout takes what is due longest, whenever it came": func(l line) {
			l.looked(time.Minute, false) // the machine was slow
			l.put("a", time.Minute)
			l.put("b", time.Second)
			l.takes("a", time.Hour)
			l.put("late", time.Hour)
			l.takes("late", time.Hour)
			l.takes("b", time.Hour)
			l.takes("", time.Hour)
		},
		"what comes to stand before the front is found when that is over": func(l line) {
			l.looked(time.Minute, true)
			l.put("a", time.Second)
			l.put("late", time.Hour)
			l.next(true)
			l.takes("a", time.Hour)
			l.next(false)
			l.takes("", time.Hour)
			l.s.Front("q").End()
			l.next(true)
			l.takes("late", time.Hour)
			l.next(false)
		},
		"what is said to be due is found by the checkout that follows, also before the front": func(l line) {
			l.putMany(100, time.Minute)
			l.takesMany(100, 100)
			l.putMany(20, time.Second)
			l.takesMany(100, 20)
			l.put("late", time.Hour) // its transaction committed late
			l.next(true)
			l.takesMany(100, 1)
		},
		"what comes to an empty queue is found at once, also when its transaction took a while": func(l line) {
			l.looked(time.Minute, true)
			l.put("late", 2*time.Second)
			l.next(true)
			l.takes("late", time.Hour)
			l.put("new", 0)
			l.next(true)
			l.takes("new", time.Hour)
		},
		"large checkouts go on where they were": func(l line) {
			for range 3 {
				l.putMany(100, time.Minute)
			}
			l.takesMany(100, 100)
			l.put("late", time.Hour)
			l.takesMany(100, 100)
			l.s.Front("q").End()
			l.takesMany(100, 100)
			l.s.Front("q").End()
			l.takesMany(100, 1)
		},
		"leases that ran out are found also where searches go back no further than to the oldest task in work": func(l line) {
			l.put("long", time.Minute)
			l.takes("long", time.Hour)
			l.put("short", 0)
			l.takes("short", time.Millisecond)
			time.Sleep(2 * time.Millisecond)
			l.s.Working("q").Was(true)
			l.takes("short", time.Millisecond)
			l.change(old(l.s)) // its checkout committed late
			time.Sleep(2 * time.Millisecond)
			l.takes("short", time.Hour)
			l.takes("", time.Hour)
			l.s.Working("q").End()
			l.next(true)
			l.takes("long", time.Hour)
		},
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(line{t, open(t)})
		})
	}
}

// put enqueues a task that has been due for a while.
func (l line) put(kind string, dueFor time.Duration) { l.putSome(1, kind, dueFor) }

func (l line) putMany(n int, dueFor time.Duration) { l.putSome(n, "many", dueFor) }

func (l line) putSome(n int, kind string, dueFor time.Duration) {
	l.t.Helper()
	args := dialect.Args{"queue": "q"}
	var ids dialect.Col[uuid.UUID]
	var kinds dialect.Col[string]
	var none dialect.Col[*string]
	var at, size dialect.Col[*int64]
	var payloads dialect.Col[[]byte]
	var priority, most, delay, reused dialect.Col[int64]
	for range n {
		ids, kinds, none, at, size = append(ids, uuid.Must(uuid.NewV7())), append(kinds, kind), append(none, nil), append(at, nil), append(size, nil)
		payloads, priority, most, delay = append(payloads, nil), append(priority, 5), append(most, 9), append(delay, -dueFor.Microseconds())
		reused = append(reused, 0)
	}
	args["id"], args["kind"], args["reference"], args["headers"], args["at"], args["payload"], args["payload_size"] = ids, kinds, none, none, at, payloads, size
	args["priority"], args["max_attempts"], args["delay"], args["reused"], args["clock"] = priority, most, delay, reused, int64(0)
	l.do(func(ctx context.Context, c dialect.Conn) error {
		_, err := l.s.QueryBatch(ctx, c, l.s.Statements.Insert, args, n)
		return err
	})
}

func (l line) change(text string) {
	l.t.Helper()
	l.do(func(ctx context.Context, c dialect.Conn) error {
		_, err := c.Exec(ctx, text)
		return err
	})
}

func (l line) do(f func(ctx context.Context, c dialect.Conn) error) {
	l.t.Helper()
	if err := l.s.Do(l.t.Context(), f); err != nil {
		l.t.Fatal(err)
	}
}

func (l line) take(n int, lease time.Duration) []dialect.Row {
	l.t.Helper()
	rows, err := l.s.Dialect.Checkout(l.t.Context(), l.s, dialect.CheckoutRequest{
		Strategy: dialect.SkipLocked, Queue: "q", Limit: n, Lease: lease, Holder: uuid.NewString(), Expired: true})
	if err != nil {
		l.t.Fatal(err)
	}
	return rows
}

// takes checks out one task, under a lease, and holds that it is of this kind; "" is none.
func (l line) takes(want string, lease time.Duration) {
	l.t.Helper()
	kind := ""
	if rows := l.take(1, lease); len(rows) > 0 {
		kind = rows[0].Kind
	}
	if kind != want {
		l.t.Errorf("took %q, want %q", kind, want)
	}
}

// takesMany checks out n tasks and holds how many there were.
func (l line) takesMany(n, want int) {
	l.t.Helper()
	if got := len(l.take(n, time.Hour)); got != want {
		l.t.Errorf("took %d tasks, want %d", got, want)
	}
}

// next holds whether something is said to be due.
func (l line) next(due bool) {
	l.t.Helper()
	l.do(func(ctx context.Context, c dialect.Conn) error {
		rows, err := l.s.Dialect.(dialect.Nexter).Next(ctx, l.s, c, "q")
		if err == nil && (rows[0].Due != nil && *rows[0].Due <= rows[0].Now) != due {
			l.t.Errorf("due at %v by %d, want due %v", rows[0].Due, rows[0].Now, due)
		}
		return err
	})
}

// looked pretends that a look from the start took a while and found nothing, among many dead entries or none.
func (l line) looked(took time.Duration, dead bool) {
	l.t.Helper()
	ask := func(text string, args dialect.Args) ([]dialect.Row, error) { return l.s.Ask(l.t.Context(), text, args) }
	err := l.s.Front("q").Look(1).Found(nil, took, func() (bool, error) { return dead, nil }, l.s.AskNow(ask))
	if err != nil {
		l.t.Fatal(err)
	}
}
