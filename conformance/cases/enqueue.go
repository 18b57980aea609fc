package cases

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
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
		Case{Name: "LargePayloads", Once: true, run: enqueueLargePayloads,
			Law: "A batch whose payloads are too large for one statement is added completely."},
		Case{Name: "CheckedOutInOrderOfCalls", run: enqueueOrder,
			Law: "Tasks of one priority that are due at once are checked out in the order in which they were enqueued."},
		Case{Name: "OrderOfLargeBatch", run: enqueueOrderLarge,
			Law: "The tasks of one EnqueueMany are checked out in the order given, however many, whatever their references."},
		Case{Name: "DuplicateReference", Once: true, run: enqueueDuplicate,
			Law: "Enqueueing a reference in use returns ErrDuplicate and its task's id, whatever its state; nothing changes."},
		Case{Name: "DuplicateInOneCall", Once: true, run: enqueueDuplicateInCall,
			Law: "Of two tasks of one call with the same reference or id, the second is a duplicate of the first."},
		Case{Name: "DuplicatesAmongMany", Once: true, run: enqueueDuplicatesAmongMany,
			Law: "EnqueueMany adds the new tasks and returns the existing id of each duplicate, in the order given."},
		Case{Name: "ReferenceFreeAfterPurge", Once: true, run: enqueueAfterPurge,
			Law: "A reference can be used again as soon as its task is removed."},
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
	t.failIf(show(task) != show(want) || task.Payload != nil || task.Result != nil || task.Headers != nil,
		"got  %s\nwant %s", show(task), show(want))
	t.failIf(task.Created.Before(before) || task.Created.After(after),
		"created at %v, want between %v and %v by the database's clock", task.Created, before, after)
	t.failIf(id.Version() != 7, "the id %s is of version %d, want 7", id, id.Version())
}

func enqueueAllFields(t *test) {
	c, q := t.openQueue()
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
	t.failIf(!got.Due.Equal(at), "due at %v, want %v", got.Due, at)
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

// overOneStatement returns more rows than one statement of a batch takes, within reason.
func (t *test) overOneStatement(b dialect.Batch) int {
	return min(2*b.Max+1, 12_000)
}

func (t *test) statements() dialect.Statements {
	return sqlrun.NewTexts(t.dialect(), dialect.Names{Prefix: t.Prefix}).Statements
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
	c, q := t.openQueue()
	t.enqueue(q, dbq.NewTask{Delay: long})
	t.enqueue(q, dbq.NewTask{RunAt: t.now(c).Add(long)})
	t.wantNone("tasks due in an hour", q)
	for _, nt := range []dbq.NewTask{{Delay: 30 * time.Millisecond}, {RunAt: t.now(c).Add(30 * time.Millisecond)}} {
		id := t.enqueue(q, nt)
		due := t.get(c, id).Due
		t.eventually("the delayed task is handed out", func() bool {
			tasks := t.checkout(q, 10, long)
			t.failIf(len(tasks) > 0 && t.now(c).Before(due), "handed out before %v, when it is due", due)
			return len(tasks) == 1 && tasks[0].ID == id
		})
	}
}

func enqueueDuplicate(t *test) {
	for _, s := range situations()[1:] { // all but absent
		c := t.open()
		q := c.Queue("queue " + s.name)
		id := s.reach(t, q, dbq.NewTask{Reference: "r", Payload: []byte("old")})
		before := t.get(c, id)
		got, err := q.Enqueue(t.ctx, dbq.NewTask{Reference: "r", Payload: []byte("new")})
		t.wantErr("enqueue beside "+s.name, err, dbq.ErrDuplicate)
		t.failIf(got != id, "the id beside %s is %s, want the existing task's, %s", s.name, got, id)
		var e *dbq.Error
		t.failIf(!errors.As(err, &e) || e.TaskID != id || e.Queue != q.Name() || e.Class != dialect.Duplicate,
			"the error says %+v, want task %s, queue %q and class duplicate", e, id, q.Name())
		t.wantUnchanged("the refused enqueue", c, before)
		t.wantCount(c, q.Name(), 1)
		t.must(c.Close())
	}
}

func enqueueDuplicateInCall(t *test) {
	c, q := t.openQueue()
	id := dbq.NewID()
	out := must(q.EnqueueMany(t.ctx, []dbq.NewTask{
		{Reference: "b", Payload: []byte("first b")}, {Reference: "a"}, {Reference: "b", Payload: []byte("second b")},
		{ID: id, Payload: []byte("first id")}, {ID: id, Payload: []byte("second id")},
	}))
	for i, duplicate := range []bool{false, false, true, false, true} {
		t.failIf(out[i].Duplicate != duplicate, "duplicate is %v for task %d, want %v", out[i].Duplicate, i, duplicate)
	}
	t.failIf(out[2].ID != out[0].ID || out[4].ID != id,
		"the duplicates are reported as %s and %s, want %s and %s", out[2].ID, out[4].ID, out[0].ID, id)
	if got := t.get(c, out[0].ID).Payload; string(got) != "first b" {
		t.Errorf("the task added for the reference is the one with %q, want the first", got)
	}
	if got := t.get(c, id).Payload; string(got) != "first id" {
		t.Errorf("the task added for the id is the one with %q, want the first", got)
	}
	t.wantCount(c, "q", 3)
}

func enqueueDuplicatesAmongMany(t *test) {
	c, q := t.openQueue()
	ref := func(i int) string { return fmt.Sprint("r", i) }
	old := t.enqueueMany(q, 10, func(i int, nt *dbq.NewTask) { nt.Reference = ref(i * 3) })
	batch := make([]dbq.NewTask, 30)
	for i := range batch {
		batch[i].Reference = ref(i)
	}
	out := must(q.EnqueueMany(t.ctx, batch))
	for i, o := range out {
		if want := i%3 == 0; o.Duplicate != want || want && o.ID != old[i/3] {
			t.Errorf("task %d: got %+v, want duplicate %v", i, o, want)
		}
		if found, err := q.Find(t.ctx, ref(i)); err != nil || found != o.ID {
			t.Errorf("reference %s is of task %s (error %v), want the returned id, %s", ref(i), found, err, o.ID)
		}
	}
	t.wantCount(c, "q", 30)
}

func enqueueAfterPurge(t *test) {
	c, q := t.openQueue()
	task := t.settleNew(q, dbq.NewTask{Reference: "r"}, dbq.Completed(nil))
	_, err := q.Enqueue(t.ctx, dbq.NewTask{Reference: "r"})
	t.wantErr("enqueue beside the completed task", err, dbq.ErrDuplicate)
	t.operate(c, admin.Purge, task.ID)
	t.settleNew(q, dbq.NewTask{Reference: "r"}, dbq.Deleted())
	t.enqueue(q, dbq.NewTask{Reference: "r"})
}
