package cases

import (
	"bytes"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/google/uuid"
)

func bytesCases() []Case {
	return inGroup("Checkout",
		Case{Name: "BytesAreBounded", Slow: true, run: checkoutBytes,
			Law: "A checkout returns at most WithMaxCheckoutBytes of payload, in order, and reports that it left tasks " +
				"behind; a task larger than that is returned alone."},
		Case{Name: "BytesAreBoundedInTakeover", run: checkoutBytesOfExpired,
			Law: "A checkout that takes over expired tasks returns at most WithMaxCheckoutBytes of payload; repeated " +
				"checkouts take over every task."},
		Case{Name: "TaskLargerThanMaxPayload", run: checkoutLargerThanEnqueued,
			Law: "A task larger than a client's WithMaxPayload, enqueued by another client, is checked out whole and blocks " +
				"no other task."},
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
func (t *test) sizedTasks(q *dbq.Queue, sizes []int, edit func(i int, nt *dbq.NewTask)) []uuid.UUID {
	return t.shuffledDue(q, len(sizes), func(i int, nt *dbq.NewTask) {
		nt.Payload = bytes.Repeat([]byte{byte(i)}, sizes[i])
		if edit != nil {
			edit(i, nt)
		}
	})
}

// checkoutWithinBytes checks out up to n tasks, and wants their payloads whole and within the client's bound.
func (t *test) checkoutWithinBytes(q *dbq.Queue, n int, lease time.Duration,
	size func(id uuid.UUID) int) (out access.CheckoutResult) {
	out, err := access.Checkout(t.ctx, q, n, lease)
	t.must(err)
	total, most := 0, q.Client().Info().MaxCheckoutBytes
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
		t.Fatalf("a checkout of %d brought %d tasks with %d bytes of payload, want at most %d", n, len(out.Tasks), total,
			most)
	}
	return out
}

func checkoutBytes(t *test) {
	bound := dbq.WithMaxCheckoutBytes(boundOfBytes)
	usual := slices.Repeat([]int{usualPayload}, 50)
	huge := slices.Clone(usual)
	huge[7], huge[23], huge[24] = hugePayload, hugePayload, hugePayload
	for name, sizes := range map[string][]int{
		"usual":      usual,
		"huge":       huge,
		"huge first": slices.Concat([]int{hugePayload}, usual),
		"mixed": slices.Concat(slices.Repeat([]int{littlePayload}, 30), usual[:30],
			slices.Repeat([]int{littlePayload}, 30), huge[:10]),
	} {
		for _, n := range []int{10, 100, 1000} { // all that is remembered of a queue is its client's: of this one
			q := t.open(bound).Queue(name)
			ids := t.sizedTasks(q, sizes, func(i int, nt *dbq.NewTask) { nt.Priority = i / 40 })
			size := func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] }
			var got []dbq.Task
			for len(got) < len(ids) {
				out := t.checkoutWithinBytes(q, n, long, size)
				got = append(got, out.Tasks...)
				if len(out.Tasks) == 0 {
					t.Fatalf("%s: a checkout of %d brought nothing after %d of %d tasks", name, n, len(got), len(ids))
				}
				if left := len(got) < len(ids); left && len(out.Tasks) < n && !out.More {
					t.Errorf("%s: a checkout of %d brought %d tasks and left some, and does not report it", name, n, len(out.Tasks))
				}
			}
			t.wantIDs(name+": all checkouts", got, ids)
			if out := t.checkoutWithinBytes(q, n, long, size); len(out.Tasks) > 0 || out.More {
				t.Errorf("%s: after all, a checkout brought %d tasks, more %v", name, len(out.Tasks), out.More)
			}
		}
	}
}

func checkoutBytesOfExpired(t *test) {
	c := t.open(dbq.WithMaxCheckoutBytes(boundOfBytes))
	q := c.Queue("q")
	sizes := slices.Repeat([]int{usualPayload}, 25)
	sizes[3] = hugePayload
	// What is taken over may come with what is due, and some attempts are exhausted.
	ids := t.sizedTasks(q, sizes, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i%4 })
	size := func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] }
	others := t.open().Queue("q")
	for _, task := range t.checkout(others, 20, short) {
		t.awaitExpiry(c, task.ID)
	}
	seen := map[uuid.UUID]bool{}
	for rounds := 0; len(seen) < len(ids); rounds++ {
		if rounds > 2*len(ids) {
			t.Fatalf("after %d checkouts %d of %d tasks came", rounds, len(seen), len(ids))
		}
		out := t.checkoutWithinBytes(q, 100, long, size)
		spent := 0
		for _, task := range out.Exhausted {
			spent += size(task.ID)
		}
		if most := c.Info().MaxCheckoutBytes; spent > most && len(out.Exhausted) > 1 {
			t.Errorf("a checkout returned %d exhausted tasks with %d bytes of payload, want at most %d", len(out.Exhausted),
				spent, most)
		}
		for _, task := range append(out.Tasks, out.Exhausted...) {
			if seen[task.ID] {
				t.Errorf("task %s came twice", task.ID)
			}
			seen[task.ID] = true
		}
	}
}

func checkoutLargerThanEnqueued(t *test) {
	q := t.open(dbq.WithMaxPayload(littlePayload), dbq.WithMaxCheckoutBytes(1000)).Queue("q")
	sizes := []int{littlePayload, usualPayload, littlePayload, usualPayload, usualPayload, littlePayload}
	ids := t.sizedTasks(t.open().Queue("q"), sizes, nil)
	var got []dbq.Task
	for range sizes {
		out := t.checkoutWithinBytes(q, 100, long, func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] })
		got = append(got, out.Tasks...)
	}
	t.wantIDs("one large task at a time", got, ids)
}
