package conformance

import (
	"bytes"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

func bytesCases() []Case {
	return inGroup("Checkout",
		Case{Name: "BytesAreBounded", run: checkoutBytes, Law: "A checkout brings no more payload than WithMaxCheckoutBytes, in order, at least one task, " +
			"and reports that it left some; a task larger than that comes alone."},
		Case{Name: "BytesAreBoundedInTakeover", run: checkoutBytesOfExpired,
			Law: "A checkout that takes over tasks whose lease ran out brings no more payload than WithMaxCheckoutBytes; in the end each is taken over."},
		Case{Name: "LargerThanThisClientEnqueues", run: checkoutLargerThanEnqueued,
			Law: "A task larger than a client's WithMaxPayload, which another client enqueued, is handed out to it whole, and stops no other task."},
	)
}

// Payloads of the laws about bytes. No engine keeps one of usual beside the other columns of a row.
const (
	usualPayload  = 20 << 10
	boundOfBytes  = 10*usualPayload + usualPayload/2
	hugePayload   = 2 * boundOfBytes
	littlePayload = 10
)

// sizedTasks enqueues tasks with payloads of these sizes, the first due longest, and returns their ids in that order.
func (t *T) sizedTasks(q *dbq.Queue, sizes []int, edit func(i int, nt *dbq.NewTask)) []uuid.UUID {
	return t.shuffledDue(q, len(sizes), func(i int, nt *dbq.NewTask) {
		nt.Payload = bytes.Repeat([]byte{byte(i)}, sizes[i])
		if edit != nil {
			edit(i, nt)
		}
	})
}

// checkoutWithin checks out up to n tasks and wants their payloads to be within the client's bound, and whole.
func (t *T) checkoutWithin(q *dbq.Queue, n int, lease time.Duration, size func(id uuid.UUID) int) (out dbq.CheckedOut) {
	out, err := q.CheckoutAndSpent(t.ctx, n, lease)
	t.Must(err)
	total, most := 0, q.Client().MaxCheckoutBytes()
	for _, task := range out.Tasks {
		total += len(task.Payload)
		if got, want := len(task.Payload), size(task.ID); got != want {
			t.Fatalf("task %s came with %d bytes of payload, want %d", task.ID, got, want)
		}
		if len(task.Payload) > most && len(out.Tasks) > 1 {
			t.Fatalf("a task of %d bytes came among %d, want it alone", len(task.Payload), len(out.Tasks))
		}
	}
	if total > most && len(out.Tasks) > 1 || len(out.Tasks) > n {
		t.Fatalf("a checkout of %d brought %d tasks with %d bytes of payload, want at most %d", n, len(out.Tasks), total, most)
	}
	return out
}

func checkoutBytes(t *T) {
	bound := dbq.WithMaxCheckoutBytes(boundOfBytes)
	usual := slices.Repeat([]int{usualPayload}, 50)
	huge := slices.Clone(usual)
	huge[7], huge[23], huge[24] = hugePayload, hugePayload, hugePayload
	for name, sizes := range map[string][]int{
		"usual":      usual,
		"huge":       huge,
		"huge first": slices.Concat([]int{hugePayload}, usual),
		"mixed":      slices.Concat(slices.Repeat([]int{littlePayload}, 30), usual[:30], slices.Repeat([]int{littlePayload}, 30), huge[:10]),
	} {
		for _, n := range []int{10, 100, 1000} { // all that is remembered of a queue is its client's: of this one
			q := t.Open(bound).Queue(name)
			ids := t.sizedTasks(q, sizes, func(i int, nt *dbq.NewTask) { nt.Priority = i / 40 })
			size := func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] }
			var got []dbq.Task
			for len(got) < len(ids) {
				out := t.checkoutWithin(q, n, long, size)
				got = append(got, out.Tasks...)
				if len(out.Tasks) == 0 {
					t.Fatalf("%s: a checkout of %d brought nothing after %d of %d tasks", name, n, len(got), len(ids))
				}
				if left := len(got) < len(ids); left && len(out.Tasks) < n && !out.More {
					t.Errorf("%s: a checkout of %d brought %d tasks and left some, and does not report it", name, n, len(out.Tasks))
				}
			}
			t.wantIDs(name+": all checkouts", got, ids)
			if out := t.checkoutWithin(q, n, long, size); len(out.Tasks) > 0 || out.More {
				t.Errorf("%s: after all, a checkout brought %d tasks, more %v", name, len(out.Tasks), out.More)
			}
		}
	}
}

func checkoutBytesOfExpired(t *T) {
	c := t.Open(dbq.WithMaxCheckoutBytes(boundOfBytes))
	q := c.Queue("q")
	sizes := slices.Repeat([]int{usualPayload}, 25)
	sizes[3] = hugePayload
	// What is taken over may come with what is due, and some attempts are spent.
	ids := t.sizedTasks(q, sizes, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i%4 })
	size := func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] }
	others := t.Open().Queue("q")
	for _, task := range t.checkout(others, 20, short) {
		t.ranOut(c, task.ID)
	}
	seen := map[uuid.UUID]bool{}
	for rounds := 0; len(seen) < len(ids); rounds++ {
		if rounds > 2*len(ids) {
			t.Fatalf("after %d checkouts %d of %d tasks came", rounds, len(seen), len(ids))
		}
		out := t.checkoutWithin(q, 100, long, size)
		spent := 0
		for _, task := range out.Spent {
			spent += size(task.ID)
		}
		if most := c.MaxCheckoutBytes(); spent > most && len(out.Spent) > 1 {
			t.Errorf("a checkout brought %d spent tasks with %d bytes of payload, want at most %d", len(out.Spent), spent, most)
		}
		for _, task := range append(out.Tasks, out.Spent...) {
			if seen[task.ID] {
				t.Errorf("task %s came twice", task.ID)
			}
			seen[task.ID] = true
		}
	}
}

func checkoutLargerThanEnqueued(t *T) {
	q := t.Open(dbq.WithMaxPayload(littlePayload), dbq.WithMaxCheckoutBytes(1000)).Queue("q")
	sizes := []int{littlePayload, usualPayload, littlePayload, usualPayload, usualPayload, littlePayload}
	ids := t.sizedTasks(t.Open().Queue("q"), sizes, nil)
	var got []dbq.Task
	for range sizes {
		out := t.checkoutWithin(q, 100, long, func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] })
		got = append(got, out.Tasks...)
	}
	t.wantIDs("one large task at a time", got, ids)
}
