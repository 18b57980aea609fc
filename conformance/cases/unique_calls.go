package cases

import (
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

func uniqueRolledBack(t *test) {
	c := t.open()
	q := c.Queue("q")
	waiting := t.enqueue(q, dbq.NewTask{Delay: long, Unique: replacing("waits")})
	ended := t.takeNew(q, dbq.NewTask{Unique: pending("ended")}, long)
	t.must(q.Complete(t.ctx, ended.Lease, nil))
	before := t.get(c, waiting)
	enqueueAll := func(tx dbq.Tx) {
		out, err := q.EnqueueManyTx(t.ctx, tx, []dbq.NewTask{
			{Unique: pending("new")}, {Unique: pending("ended")}, {Payload: []byte("x"), Unique: replacing("waits")},
		})
		t.must(err)
		if out[0].Duplicate || out[1].Duplicate || !out[2].Replaced || out[2].ID != waiting {
			t.Errorf("the outcomes are %+v, want two tasks and %s replaced", out, waiting)
		}
	}
	tx := t.beginTx(c)
	enqueueAll(tx)
	t.must(tx.Rollback())
	t.wantUnchanged("the transaction that was rolled back", c, before)
	if n := t.count(c, "q"); n != 2 {
		t.Errorf("there are %d tasks after the rollback, want 2", n)
	}
	tx = t.beginTx(c)
	enqueueAll(tx)
	t.must(tx.Commit())
	if n := t.count(c, "q"); n != 4 {
		t.Errorf("there are %d tasks after the commit, want 4", n)
	}
}

func uniqueReference(t *test) {
	c := t.open()
	q := c.Queue("q")
	taken := t.enqueue(q, dbq.NewTask{Reference: "r"})
	for _, u := range []*dbq.Unique{pending("k"), unfinished("k"), {Key: "k", Period: dbq.MaxUniquePeriod}} {
		nt := dbq.NewTask{Reference: "r", Unique: u}
		t.wantDuplicate("the reference is taken", q, nt, taken)
		nt.Reference = ""
		first := t.enqueue(q, nt)
		nt.Reference = "r"
		t.wantDuplicate("both are taken", q, nt, first)
	}
}

func uniqueRepeated(t *test) {
	c := t.open()
	q := c.Queue("q")
	for i, u := range []*dbq.Unique{pending("k"), replacing("r"), {Key: "p", Period: dbq.MaxUniquePeriod}} {
		nt := dbq.NewTask{ID: dbq.NewID(), Unique: u}
		t.enqueue(q, nt)
		before := t.get(c, nt.ID)
		t.wantDuplicate("again", q, nt, nt.ID)
		t.wantUnchanged("the repetition", c, before)
		task := t.take(q, long)
		t.wantDuplicate("while it runs", q, nt, nt.ID)
		t.must(q.Complete(t.ctx, task.Lease, nil))
		t.wantDuplicate("after its end", q, nt, nt.ID)
		if n := t.count(c, "q"); n != i+1 {
			t.Errorf("there are %d tasks, want %d", n, i+1)
		}
	}
}

func uniqueInOneCall(t *test) {
	c := t.open()
	q := c.Queue("q")
	old := t.enqueue(q, dbq.NewTask{Delay: time.Minute, Unique: replacing("old")})
	n := t.overOneStatement(t.statements().AddKeys)
	ts := []dbq.NewTask{
		{Payload: []byte("1"), Unique: pending("new")},
		{Payload: []byte("2"), Unique: pending("new")},
		{Payload: []byte("3"), Priority: 1, Unique: replacing("new")},
		{Delay: long, Payload: []byte("4"), Unique: debouncing("new", 0)},
		{Payload: []byte("5"), Unique: replacing("old")},
		{Payload: []byte("6")},
		{Delay: long, Payload: []byte("7"), Unique: debouncing("old", 0)},
		{Payload: []byte("8"), Unique: pending("old")},
		{Delay: time.Minute, Payload: []byte("9"), Unique: debouncing("new", 0)},
	}
	for i := range n {
		ts = append(ts, dbq.NewTask{Delay: long, Unique: pending(fmt.Sprint(i))})
	}
	before := t.now(c)
	out, err := q.EnqueueMany(t.ctx, ts)
	t.must(err)
	first := out[0].ID
	want := []dbq.Enqueued{
		{ID: first}, {ID: first, Duplicate: true}, {ID: first, Replaced: true}, {ID: first, Debounced: true},
		{ID: old, Replaced: true}, {ID: out[5].ID}, {ID: old, Debounced: true}, {ID: old, Duplicate: true},
		{ID: first, Debounced: true},
	}
	for i, w := range want {
		if out[i] != w {
			t.Errorf("the outcome of task %d is %+v, want %+v", i, out[i], w)
		}
	}
	for id, payload := range map[uuid.UUID]string{first: "3", old: "5", out[5].ID: "6"} {
		task := t.get(c, id)
		if string(task.Payload) != payload || payload != "6" && task.Due.Before(before.Add(long)) {
			t.Errorf("got %s, want payload %s, postponed by an hour", show(task), payload)
		}
	}
	if got := t.count(c, "q"); got != n+3 {
		t.Errorf("there are %d tasks, want %d", got, n+3)
	}
	again, err := q.EnqueueMany(t.ctx, ts[len(want):])
	t.must(err)
	for i, o := range again {
		if o != (dbq.Enqueued{ID: out[len(want)+i].ID, Duplicate: true}) {
			t.Fatalf("the outcome of task %d once more is %+v, want a duplicate of %s", i, o, out[len(want)+i].ID)
		}
	}
}

func uniqueReturned(t *test) {
	c := t.open()
	q := c.Queue("q")
	nt := dbq.NewTask{Unique: pending("k")}
	first := t.takeNew(q, nt, long)
	second := t.enqueue(q, nt)
	t.must(q.Settle(t.ctx, first.Lease, dbq.Poisoned(errBoom)))
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, first.ID))
	t.wantDuplicate("while both wait", q, nt, second)
	if tasks := t.checkout(q, 10, long); len(tasks) != 2 {
		t.Errorf("%d tasks can be checked out, want both", len(tasks))
	}
}

func uniqueInvalid(t *test) {
	c := t.open()
	q := c.Queue("q")
	waiting := t.enqueue(q, dbq.NewTask{Delay: long, Unique: pending("k")})
	before := t.get(c, waiting)
	long201 := make([]byte, dbq.MaxUniqueKey+1)
	for i := range long201 {
		long201[i] = 'k'
	}
	for what, nt := range map[string]dbq.NewTask{
		"a key of 201 characters":  {Unique: pending(string(long201))},
		"a control character":      {Unique: pending("k\x00")},
		"a negative period":        {Unique: &dbq.Unique{Key: "k", Period: -time.Hour}},
		"a short period":           {Unique: &dbq.Unique{Key: "k", Period: time.Millisecond}},
		"a long period":            {Unique: &dbq.Unique{Key: "k", Period: dbq.MaxUniquePeriod + time.Second}},
		"a short window":           {Unique: &dbq.Unique{Key: "k", Window: time.Millisecond}},
		"a long window":            {Unique: &dbq.Unique{Key: "k", Window: dbq.MaxUniquePeriod + time.Second}},
		"a window and a period":    {Unique: &dbq.Unique{Key: "k", Window: time.Hour, Period: time.Hour}},
		"a window and a scope":     {Unique: &dbq.Unique{Key: "k", Window: time.Hour, While: dbq.UniqueUnfinished}},
		"a period and a scope":     {Unique: &dbq.Unique{Key: "k", Period: time.Hour, While: dbq.UniqueUnfinished}},
		"an unknown scope":         {Unique: &dbq.Unique{Key: "k", While: "running"}},
		"an unknown conflict":      {Unique: &dbq.Unique{Key: "k", OnConflict: "drop"}},
		"a replacement by payload": {Unique: replacing("")},
		"a debounce without delay": {Unique: debouncing("k", 0)},
		"a debounce with a time":   {RunAt: time.Now().Add(long), Unique: debouncing("k", 0)},
		"a wait of what is kept":   {Delay: time.Second, Unique: &dbq.Unique{Key: "k", MaxWait: time.Hour}},
		"a wait below the delay":   {Delay: time.Minute, Unique: debouncing("k", time.Second)},
		"a negative wait":          {Delay: time.Minute, Unique: debouncing("k", -1)},
	} {
		_, err := q.EnqueueMany(t.ctx, []dbq.NewTask{{}, nt})
		t.wantInvalid(what, err, dbq.ErrUnique)
	}
	t.wantUnchanged("what was refused", c, before)
	if n := t.count(c, "q"); n != 1 {
		t.Errorf("there are %d tasks, want 1", n)
	}
}

func uniqueClean(t *test) {
	c := t.open()
	q := c.Queue("q")
	rows := func() (n int) {
		t.must(c.DB().QueryRowContext(t.ctx, "SELECT COUNT(*) FROM "+t.Prefix+"unique_key").Scan(&n))
		return n
	}
	clean := func() {
		_, err := admin.New(c).Clean(t.ctx, q.Name(), dbq.Retention{Completed: long})
		t.must(err)
	}
	var ends []dbq.Lease
	for _, u := range []*dbq.Unique{pending("a"), unfinished("b"), {Key: "c", Period: time.Hour}} {
		task := t.takeNew(q, dbq.NewTask{Unique: u}, long)
		ends = append(ends, task.Lease)
	}
	waiting := t.enqueue(q, dbq.NewTask{Delay: long, Unique: pending("w")})
	clean()
	if n := rows(); n != 4 {
		t.Errorf("there are %d keys, want 4, none of which has expired", n)
	}
	_, err := c.DB().ExecContext(t.ctx, "UPDATE "+t.Prefix+"unique_key SET expires = 1")
	t.must(err)
	clean()
	if n := rows(); n != 4 {
		t.Errorf("there are %d keys, want 4: no task has ended", n)
	}
	poison := t.takeNew(q, dbq.NewTask{Unique: unfinished("p")}, long)
	t.must(q.Settle(t.ctx, poison.Lease, dbq.Poisoned(errBoom)))
	for _, l := range ends {
		t.must(q.Complete(t.ctx, l, nil))
	}
	_, err = c.DB().ExecContext(t.ctx, "UPDATE "+t.Prefix+"unique_key SET expires = 1")
	t.must(err)
	clean()
	if n := rows(); n != 2 {
		t.Errorf("there are %d keys, want those of the waiting task and of the one in POISON", n)
	}
	t.wantDuplicate("after cleaning", q, dbq.NewTask{Unique: pending("w")}, waiting)
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, poison.ID))
	t.wantDuplicate("of a task that was reenqueued after cleaning", q, dbq.NewTask{Unique: unfinished("p")}, poison.ID)
}
