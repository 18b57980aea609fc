package cases

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

func enqueueCases() []Case {
	return inGroup("Enqueue",
		Case{Name: "Minimal", Once: true, run: enqueueMinimal,
			Law: "The zero NewTask becomes a task that is due now, with the defaults and no payload."},
		Case{Name: "AllFields", Once: true, run: enqueueAllFields,
			Law: "Get and Checkout return every field of a task as it was enqueued."},
		Case{Name: "Many", Once: true, run: enqueueMany,
			Law: "EnqueueMany gives each task its own id and returns the ids in the order of the tasks."},
		Case{Name: "EmptyBatch", Once: true, run: enqueueEmpty,
			Law: "Enqueueing no tasks adds none and is not an error."},
		Case{Name: "ManyIsAtomic", Once: true, run: enqueueAtomic,
			Law: "When one task of a batch is invalid, none is added."},
		Case{Name: "LargeBatch", Once: true, run: enqueueLarge,
			Law: "A batch that exceeds the limits of one statement is added completely."},
		Case{Name: "LargePayloads", Once: true, run: enqueueLargePayloads,
			Law: "A batch whose payloads are too large for one statement is added completely."},
		Case{Name: "CheckedOutInOrderOfCalls", run: enqueueOrder,
			Law: "Tasks of one priority that are due at once are checked out in the order in which they were enqueued."},
		Case{Name: "OrderOfLargeBatch", run: enqueueOrderLarge,
			Law: "The tasks of one EnqueueMany are checked out in the order given, whatever their references and however " +
				"many they are."},
		Case{Name: "DuplicateReference", Once: true, run: enqueueDuplicate,
			Law: "Enqueueing a reference that is in use returns ErrDuplicate with the existing id, whatever the state of " +
				"that task, and changes nothing."},
		Case{Name: "DuplicateInOneCall", Once: true, run: enqueueDuplicateInCall,
			Law: "When two tasks of one call have the same reference or the same id, the first is added and the second is " +
				"reported as its duplicate."},
		Case{Name: "DuplicatesAmongMany", Once: true, run: enqueueDuplicatesAmongMany,
			Law: "EnqueueMany adds the new tasks and returns the existing id of each duplicate, in the order given."},
		Case{Name: "SameReferenceOtherQueue", Once: true, run: enqueueOtherQueue,
			Law: "A reference is unique within its queue only."},
		Case{Name: "WithoutReferenceNoDuplicate", Once: true, run: enqueueNoReference,
			Law: "Tasks without a reference are never duplicates of each other."},
		Case{Name: "ReferenceFreeAfterPurge", Once: true, run: enqueueAfterPurge,
			Law: "A reference can be used again as soon as its task is removed."},
		Case{Name: "RepeatWithSameID", Once: true, run: enqueueSameID,
			Law: "Repeating an enqueue with the same id adds nothing."},
		Case{Name: "DelayedUntilDue", run: enqueueDelayed,
			Law: "A task with a delay or a run time is checked out once it is due, and not before."},
	)
}

func enqueueMinimal(t *test) {
	c := t.open(dbq.WithMaxAttempts(7))
	before := t.now(c)
	id := t.enqueue(c.Queue("q"), dbq.NewTask{})
	after := t.now(c)
	task := t.get(c, id)
	want := dbq.Task{ID: id, Queue: "q", State: dbq.StateCreated, MaxAttempts: 7, Created: task.Created,
		Updated: task.Created, Due: task.Created}
	if show(task) != show(want) || task.Payload != nil || task.Result != nil || task.Headers != nil {
		t.Errorf("got  %s\nwant %s", show(task), show(want))
	}
	if task.Created.Before(before) || task.Created.After(after) {
		t.Errorf("created at %v, want between %v and %v by the database's clock", task.Created, before, after)
	}
	if id.Version() != 7 {
		t.Errorf("the id %s is of version %d, want 7", id, id.Version())
	}
}

func enqueueAllFields(t *test) {
	c := t.open()
	q := c.Queue("q")
	at := t.now(c).Add(-time.Minute).Truncate(time.Microsecond)
	nt := dbq.NewTask{ID: dbq.NewID(), Kind: "kind", Payload: []byte(`{"a": 1}`), Reference: "ref/1", Priority: 9,
		RunAt:       at,
		MaxAttempts: 3, Headers: map[string]string{"traceparent": "00-ab-cd-01", "tag": "x"}}
	if id := t.enqueue(q, nt); id != nt.ID {
		t.Errorf("the id is %s, want the task's own, %s", id, nt.ID)
	}
	check := func(who string, got dbq.Task) {
		if got.ID != nt.ID || got.Queue != "q" || got.Kind != nt.Kind || !bytes.Equal(got.Payload, nt.Payload) ||
			got.Reference != nt.Reference || got.Priority != nt.Priority || got.MaxAttempts != nt.MaxAttempts ||
			!maps.Equal(got.Headers, nt.Headers) {
			t.Errorf("%s: got %s, want %+v", who, show(got), nt)
		}
	}
	got := t.get(c, nt.ID)
	check("get", got)
	if !got.Due.Equal(at) {
		t.Errorf("due at %v, want %v", got.Due, at)
	}
	if found, err := q.Find(t.ctx, "ref/1"); err != nil || found != nt.ID {
		t.Errorf("find by reference: got %s and error %v, want %s", found, err, nt.ID)
	}
	taken := t.take(q, long)
	check("checkout", taken)
	if taken.State != dbq.StateProcessing || taken.Attempt != 1 || taken.Fence <= got.Fence || !taken.Due.IsZero() ||
		taken.LeaseUntil.IsZero() || taken.Holder == "" {
		t.Errorf("checkout: got %s, want it in PROCESSING with attempt 1, a higher fence than %d, a lease and a holder",
			show(taken), got.Fence)
	}
	if row := t.get(c, nt.ID); show(row) != show(taken) {
		t.Errorf("checkout and get differ:\ncheckout %s\nget      %s", show(taken), show(row))
	}
}

func enqueueMany(t *test) {
	c := t.open()
	q := c.Queue("q")
	ids := t.enqueueMany(q, 100, func(i int, nt *dbq.NewTask) { nt.Payload = fmt.Append(nil, i) })
	if n := len(slices.Compact(sortedIDs(ids))); n != 100 {
		t.Errorf("got %d different ids, want 100", n)
	}
	for i, id := range ids {
		if got := string(t.get(c, id).Payload); got != fmt.Sprint(i) {
			t.Errorf("the id told for task %d is that of task %s", i, got)
		}
	}
}

func enqueueEmpty(t *test) {
	c := t.open()
	out, err := c.Queue("q").EnqueueMany(t.ctx, nil)
	if len(out) != 0 || err != nil {
		t.Errorf("got %v and error %v, want nothing", out, err)
	}
	if n := t.count(c, "q"); n != 0 {
		t.Errorf("%d tasks are there, want none", n)
	}
}

func enqueueAtomic(t *test) {
	c := t.open()
	batch := make([]dbq.NewTask, 50)
	batch[40].Priority = dbq.MaxPriority + 1
	_, err := c.Queue("q").EnqueueMany(t.ctx, batch)
	t.wantErr("a batch with one bad task", err, dbq.ErrPriority)
	if n := t.count(c, "q"); n != 0 {
		t.Errorf("%d tasks of the refused batch are there, want none", n)
	}
}

// overOneStatement returns more rows than one statement of a batch takes, within reason.
func (t *test) overOneStatement(b dialect.Batch) int {
	return min(2*b.Max+1, 12_000)
}

func (t *test) statements() dialect.Statements {
	return sqlrun.NewTexts(t.dialect(), dialect.Names{Prefix: t.Prefix}).Statements
}

func enqueueLarge(t *test) {
	c := t.open()
	q := c.Queue("q")
	n := t.overOneStatement(t.statements().Insert)
	ids := t.enqueueMany(q, n, nil)
	stats, err := admin.New(c).Stats(t.ctx, admin.CountAll())
	t.must(err)
	if len(stats) != 1 || stats[0].Count[dbq.StateCreated] != int64(n) {
		t.Errorf("stats say %+v, want %d tasks", stats, n)
	}
	t.get(c, ids[0])
	t.get(c, ids[n-1])

	// A duplicate in the last statement leaves what the ones before it added.
	out, err := q.EnqueueMany(t.ctx, append(make([]dbq.NewTask, n), dbq.NewTask{ID: ids[0]}))
	t.must(err)
	if !out[n].Duplicate || out[n].ID != ids[0] {
		t.Errorf("the repeated id: got %+v, want a duplicate of %s", out[n], ids[0])
	}
}

func enqueueLargePayloads(t *test) {
	c := t.open()
	size := min(2<<20, c.Info().MaxPayload)
	n := 9<<20/size + 1 // a statement takes 8 MiB
	payload := bytes.Repeat([]byte{0xab}, size)
	ids := t.enqueueMany(c.Queue("q"), n, func(i int, nt *dbq.NewTask) {
		nt.Payload = append([]byte{byte(i)}, payload[1:]...)
	})
	for i, id := range ids {
		if got := t.get(c, id).Payload; len(got) != size || got[0] != byte(i) || !bytes.Equal(got[1:], payload[1:]) {
			t.Errorf("the payload of task %d came back changed, with %d bytes of %d", i, len(got), size)
		}
	}
}

func enqueueOrder(t *test) {
	q := t.open().Queue("q")
	var want []uuid.UUID
	for range 20 {
		want = append(want, t.enqueue(q, dbq.NewTask{}))
	}
	want = append(want, t.enqueueMany(q, 50, nil)...)
	var got []dbq.Task
	for range 7 {
		got = append(got, t.checkout(q, 10, long)...)
	}
	t.wantIDs("checkouts of 10", got, want)
}

func enqueueOrderLarge(t *test) {
	q := t.open().Queue("q")
	n := t.overOneStatement(t.statements().Insert)
	want := t.enqueueMany(q, n, func(i int, nt *dbq.NewTask) { nt.Reference = fmt.Sprintf("r%06d", n-i) })
	var got []dbq.Task
	for len(got) < n {
		tasks := t.checkout(q, 1000, long)
		if len(tasks) == 0 {
			break
		}
		got = append(got, tasks...)
	}
	t.wantIDs("all that was enqueued", got, want)
}

func enqueueDelayed(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.enqueue(q, dbq.NewTask{Delay: long})
	t.enqueue(q, dbq.NewTask{RunAt: t.now(c).Add(long)})
	t.wantNone("tasks due in an hour", q)
	for _, nt := range []dbq.NewTask{{Delay: 30 * time.Millisecond}, {RunAt: t.now(c).Add(30 * time.Millisecond)}} {
		id := t.enqueue(q, nt)
		due := t.get(c, id).Due
		t.eventually("the delayed task is handed out", func() bool {
			tasks := t.checkout(q, 10, long)
			if len(tasks) > 0 && t.now(c).Before(due) {
				t.Errorf("handed out before %v, when it is due", due)
			}
			return len(tasks) == 1 && tasks[0].ID == id
		})
	}
}
