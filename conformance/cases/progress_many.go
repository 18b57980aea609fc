package cases

import (
	"bytes"
	"database/sql"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

func progressBatch(t *test) {
	c := t.open()
	q := c.Queue("q")
	const n = 600 // more than most engines take in one statement
	ids := t.enqueueMany(q, n, nil)
	long4000 := string(bytes.Repeat([]byte("x"), dbq.MaxProgress-10))
	want := map[uuid.UUID]string{}
	ls := make([]dbq.Lease, 0, n)
	for i, task := range t.checkout(q, n, long) {
		l := task.Lease
		if i%3 > 0 {
			want[l.Task] = fmt.Sprintf("%d %s", i, long4000[:i%2*(dbq.MaxProgress-10)])
			l.Progress = []byte(want[l.Task])
		}
		ls = append(ls, l)
	}
	check := func(what string) {
		for _, task := range t.list(c, admin.Filter{Queue: "q"}) {
			if string(task.Progress) != want[task.ID] {
				t.Fatalf("%s: a task has %d bytes of progress, want %d", what, len(task.Progress), len(want[task.ID]))
			}
		}
	}
	renewed, lost, err := q.ExtendMany(t.ctx, ls, long)
	t.must(err)
	if len(renewed) != n || len(lost) > 0 {
		t.Fatalf("%d leases are renewed and %d lost, want %d renewed", len(renewed), len(lost), n)
	}
	check("after the renewal")
	ss := make([]dbq.Settlement, n)
	for i, l := range ls { // the leases of the checkout
		if l.Progress = nil; i%5 == 0 {
			want[l.Task] = "with the settlement"
			l.Progress = []byte(want[l.Task])
		}
		ss[i] = dbq.Settlement{Lease: l, Outcome: dbq.RetryIn(0, errBoom)}
	}
	out, err := q.SettleMany(t.ctx, ss)
	t.must(err)
	for _, o := range out {
		t.must(o.Err)
	}
	check("after the settlement")
	for _, task := range t.checkout(q, len(ids), long) {
		if string(task.Progress) != want[task.ID] {
			t.Fatalf("the next checkout has %d bytes of progress, want %d", len(task.Progress), len(want[task.ID]))
		}
	}
}

func progressLevels(t *test) {
	c, other := t.open(), t.open()
	q, beats := c.Queue("q"), other.Queue("q")
	side := t.sideTable(c)
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead,
		sql.LevelSerializable} {
		task := t.takeNew(q, dbq.NewTask{}, long)
		tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Logf("no transactions at %v: %v", level, err)
			t.must(q.Complete(t.ctx, task.Lease, nil))
			continue
		}
		var n int
		t.must(tx.QueryRowContext(t.ctx, "SELECT count(*) FROM "+side).Scan(&n)) // its snapshot
		l := task.Lease
		if !c.Info().Server.OneWriter { // on which a renewal waits
			t.report(beats, l, "renewed")
		}
		l.Progress = []byte("now")
		err = q.SettleTx(t.ctx, tx, l, dbq.RetryIn(0, errBoom))
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			t.Errorf("a transaction at %v that fails a task whose lease was renewed: %v", level, err)
			_ = tx.Rollback()
			t.must(q.Complete(t.ctx, task.Lease, nil))
			continue
		}
		task = t.wantResumed(fmt.Sprint("after a transaction at ", level), q, "now")
		t.must(q.Complete(t.ctx, task.Lease, nil))
	}
}
