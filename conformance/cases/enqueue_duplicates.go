package cases

import (
	"errors"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

func enqueueDuplicate(t *test) {
	for _, s := range situations()[1:] { // all but absent
		c := t.open()
		q := c.Queue("queue " + s.name)
		id := s.reach(t, q, dbq.NewTask{Reference: "r", Payload: []byte("old")})
		before := t.get(c, id)
		got, err := q.Enqueue(t.ctx, dbq.NewTask{Reference: "r", Payload: []byte("new")})
		t.wantErr("enqueue beside "+s.name, err, dbq.ErrDuplicate)
		if got != id {
			t.Errorf("the id beside %s is %s, want the existing task's, %s", s.name, got, id)
		}
		var e *dbq.Error
		if !errors.As(err, &e) || e.Task != id || e.Queue != q.Name() || e.Class != dialect.Duplicate {
			t.Errorf("the error says %+v, want task %s, queue %q and class duplicate", e, id, q.Name())
		}
		t.wantUnchanged("the refused enqueue", c, before)
		if n := t.count(c, q.Name()); n != 1 {
			t.Errorf("%d tasks are there, want 1", n)
		}
		t.must(c.Close())
	}
}

func enqueueDuplicateInCall(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := dbq.NewID()
	out, err := q.EnqueueMany(t.ctx, []dbq.NewTask{
		{Reference: "b", Payload: []byte("first b")}, {Reference: "a"}, {Reference: "b", Payload: []byte("second b")},
		{ID: id, Payload: []byte("first id")}, {ID: id, Payload: []byte("second id")},
	})
	t.must(err)
	for i, duplicate := range []bool{false, false, true, false, true} {
		if out[i].Duplicate != duplicate {
			t.Errorf("duplicate is %v for task %d, want %v", out[i].Duplicate, i, duplicate)
		}
	}
	if out[2].ID != out[0].ID || out[4].ID != id {
		t.Errorf("the duplicates are reported as %s and %s, want %s and %s", out[2].ID, out[4].ID, out[0].ID, id)
	}
	if got := t.get(c, out[0].ID).Payload; string(got) != "first b" {
		t.Errorf("the task added for the reference is the one with %q, want the first", got)
	}
	if got := t.get(c, id).Payload; string(got) != "first id" {
		t.Errorf("the task added for the id is the one with %q, want the first", got)
	}
	if n := t.count(c, "q"); n != 3 {
		t.Errorf("%d tasks are there, want 3", n)
	}
}

func enqueueDuplicatesAmongMany(t *test) {
	c := t.open()
	q := c.Queue("q")
	ref := func(i int) string { return fmt.Sprint("r", i) }
	old := t.enqueueMany(q, 10, func(i int, nt *dbq.NewTask) { nt.Reference = ref(i * 3) })
	batch := make([]dbq.NewTask, 30)
	for i := range batch {
		batch[i].Reference = ref(i)
	}
	out, err := q.EnqueueMany(t.ctx, batch)
	t.must(err)
	for i, o := range out {
		if want := i%3 == 0; o.Duplicate != want || want && o.ID != old[i/3] {
			t.Errorf("task %d: got %+v, want duplicate %v", i, o, want)
		}
		if found, err := q.Find(t.ctx, ref(i)); err != nil || found != o.ID {
			t.Errorf("reference %s is of task %s (error %v), want the id told, %s", ref(i), found, err, o.ID)
		}
	}
	if n := t.count(c, "q"); n != 30 {
		t.Errorf("%d tasks are there, want 30", n)
	}
}

func enqueueOtherQueue(t *test) {
	c := t.open()
	a := t.enqueue(c.Queue("a"), dbq.NewTask{Reference: "r"})
	b := t.enqueue(c.Queue("b"), dbq.NewTask{Reference: "r"})
	for name, want := range map[string]uuid.UUID{"a": a, "b": b} {
		if got, err := c.Queue(name).Find(t.ctx, "r"); err != nil || got != want {
			t.Errorf("find in queue %s: got %s and error %v, want %s", name, got, err, want)
		}
	}
}

func enqueueNoReference(t *test) {
	c := t.open()
	q := c.Queue("q")
	for range 3 {
		t.enqueue(q, dbq.NewTask{})
	}
	t.enqueueMany(q, 3, nil)
	if n := t.count(c, "q"); n != 6 {
		t.Errorf("%d tasks are there, want 6", n)
	}
}

func enqueueAfterPurge(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{Reference: "r"}, long)
	t.must(q.Complete(t.ctx, task.Lease, nil))
	_, err := q.Enqueue(t.ctx, dbq.NewTask{Reference: "r"})
	t.wantErr("enqueue beside the completed task", err, dbq.ErrDuplicate)
	t.must(admin.New(c).Operate(t.ctx, admin.Purge, task.ID))
	second := t.takeNew(q, dbq.NewTask{Reference: "r"}, long)
	t.must(q.Settle(t.ctx, second.Lease, dbq.Deleted()))
	t.enqueue(q, dbq.NewTask{Reference: "r"})
}

func enqueueSameID(t *test) {
	c := t.open()
	q := c.Queue("q")
	nt := dbq.NewTask{ID: dbq.NewID(), Payload: []byte("x")}
	t.enqueue(q, nt)
	got, err := q.Enqueue(t.ctx, nt)
	t.wantErr("the repeated enqueue", err, dbq.ErrDuplicate)
	if got != nt.ID {
		t.Errorf("got id %s, want %s", got, nt.ID)
	}
	if n := t.count(c, ""); n != 1 {
		t.Errorf("%d tasks are there, want 1", n)
	}
}
