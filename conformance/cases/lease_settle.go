package cases

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/state"
)

func leaseTwice(t *test) {
	c := t.open()
	q := c.Queue("q")
	for name, ending := range endings() {
		if name == "settleDeleted" {
			continue // see CompleteTx/Deleted
		}
		task := t.takeNew(c.Queue(name), dbq.NewTask{}, long)
		out, err := c.Queue(name).SettleMany(t.ctx, []dbq.Settlement{settlement(task.Lease, ending)})
		t.must(err)
		t.must(out[0].Err)
		t.wantLost("after "+name, c.Queue(name), task.Lease)
	}
	task := t.takeNew(q, dbq.NewTask{}, long)
	twice := []dbq.Settlement{settlement(task.Lease, dbq.Completed([]byte("one"))),
		settlement(task.Lease, dbq.Completed([]byte("two")))}
	out, err := q.SettleMany(t.ctx, twice)
	t.must(err)
	t.must(out[0].Err)
	t.wantErr("the same lease a second time in one call", out[1].Err, dbq.ErrLeaseLost)
	if row := t.wantState(c, task.ID, dbq.StateCompleted); string(row.Result) != "one" {
		t.Errorf("the result is %q, want %q, the result of the settlement that was reported as done", row.Result, "one")
	}
}

func leaseOldAndNew(t *test) {
	c := t.open()
	q := c.Queue("q")
	for i, oldFirst := range []bool{true, false} {
		id := t.enqueue(q, dbq.NewTask{})
		old := t.abandon(q).Lease
		fresh := t.takeOver(q, id, long).Lease
		leases, oldAt := []dbq.Lease{old, fresh}, 0
		if !oldFirst {
			leases, oldAt = []dbq.Lease{fresh, old}, 1
		}
		renewed, lost, err := q.ExtendMany(t.ctx, leases, long)
		t.must(err)
		if len(renewed) != 1 || renewed[0].Fence != fresh.Fence || len(lost) != 1 || lost[0].Fence != old.Fence {
			t.Errorf("ExtendMany of fences %d and %d: renewed %+v, lost %+v", old.Fence, fresh.Fence, renewed, lost)
		}
		result := fmt.Append(nil, "fresh", i)
		ss := []dbq.Settlement{settlement(fresh, dbq.Completed(result)), settlement(fresh, dbq.Completed(result))}
		ss[oldAt] = settlement(old, dbq.RetryIn(0, errBoom))
		out, err := q.SettleMany(t.ctx, ss)
		t.must(err)
		t.wantErr("settling the old lease", out[oldAt].Err, dbq.ErrLeaseLost)
		t.must(out[1-oldAt].Err)
		if row := t.wantState(c, id, dbq.StateCompleted); string(row.Result) != string(result) {
			t.Errorf("the result is %q, want the fresh holder's, %q", row.Result, result)
		}
	}
}

func leaseMany(t *test) {
	c := t.open()
	q := c.Queue("q")
	n := min(2*t.statements().Settle.Max+5, 3000)
	t.enqueueMany(q, n, nil)
	tasks := t.checkout(q, n, long)
	if len(tasks) != n {
		t.Fatalf("checkout returned %d tasks, want %d", len(tasks), n)
	}
	t.rand.Shuffle(n, func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	ss, want := make([]dbq.Settlement, n), make([]dbq.State, n)
	for i, task := range tasks {
		ss[i], want[i] = sixWays(i, task.Lease)
	}
	out, err := q.SettleMany(t.ctx, ss)
	t.must(err)
	rows := map[dbq.State]int{}
	for i, o := range out {
		if i%6 == 5 {
			t.wantErr("a settlement with a wrong fence", o.Err, dbq.ErrLeaseLost)
		} else if o.Err != nil || o.State != want[i] {
			t.Errorf("settlement %d: got %v and error %v, want %v", i, o.State, o.Err, want[i])
		}
		if i > 60 && i < n-60 { // the ends of the batch are looked at row by row, all of it by counting
			continue
		}
		if want[i] == state.None {
			t.wantGone(c, tasks[i].ID)
			continue
		}
		row := t.wantState(c, tasks[i].ID, want[i])
		if kept := i%6 == 0 || i%6 == 2 || i%6 == 3; kept && string(row.Result) != fmt.Sprint(i) {
			t.Errorf("settlement %d left the result %q", i, row.Result)
		}
	}
	for _, task := range t.list(c, admin.Filter{Queue: "q"}) {
		rows[task.State]++
	}
	wantRows := map[dbq.State]int{}
	for _, s := range want {
		if s != state.None {
			wantRows[s]++
		}
	}
	if fmt.Sprint(rows) != fmt.Sprint(wantRows) {
		t.Errorf("the states are %v, want %v", rows, wantRows)
	}
}

// sixWays returns a settlement of lease l, another kind for each of six values of i, and the state that it leads to.
// The last one has a wrong fence.
func sixWays(i int, l dbq.Lease) (dbq.Settlement, dbq.State) {
	switch i % 6 {
	case 0:
		return settlement(l, dbq.Completed(fmt.Append(nil, i))), dbq.StateCompleted
	case 1:
		return settlement(l, dbq.Deleted()), state.None
	case 2:
		return settlement(l, dbq.RetryIn(long, fmt.Errorf("%d", i))), dbq.StateError
	case 3:
		return settlement(l, dbq.Poisoned(fmt.Errorf("%d", i))), dbq.StatePoison
	case 4:
		return settlement(l, dbq.Released(long)), dbq.StateCreated
	}
	l.Fence += 7
	return settlement(l, dbq.Completed(nil)), dbq.StateProcessing
}

func leaseOtherTask(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.enqueueMany(q, 2, nil)
	tasks := t.checkout(q, 2, long)
	if len(tasks) != 2 || tasks[0].Fence != tasks[1].Fence {
		t.Fatalf("got %d tasks, want two with equal fences", len(tasks))
	}
	t.must(q.Complete(t.ctx, tasks[0].Lease, nil))
	t.wantState(c, tasks[0].ID, dbq.StateCompleted)
	t.wantState(c, tasks[1].ID, dbq.StateProcessing)
}

func leaseRetry(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	const pause = 50 * time.Millisecond
	for _, retry := range []func() dbq.Outcome{
		func() dbq.Outcome { return dbq.Failed(errBoom) }, // the pause is shortest after the first attempt
		func() dbq.Outcome { return dbq.RetryIn(pause, errBoom) },
		func() dbq.Outcome { return dbq.RetryAt(t.now(c).Add(pause), errBoom) },
	} {
		t.must(q.Settle(t.ctx, task.Lease, retry()))
		due := t.get(c, task.ID).Due
		if due.IsZero() {
			t.Fatalf("the failed task has no due time")
		}
		t.eventually("the failed task is tried again", func() bool {
			tasks := t.checkout(q, 1, long)
			if len(tasks) == 0 {
				return false
			}
			if now := t.now(c); now.Before(due) {
				t.Errorf("tried again at %v, before %v", now, due)
			}
			task = tasks[0]
			return true
		})
	}
	if string(task.Result) != "boom" {
		t.Errorf("the next attempt sees the result %q, want the error of the last one", task.Result)
	}
}

func leaseManyCompleted(t *test) {
	c := t.open()
	t.manyCompleted(c, c.Queue("kept"), dbq.StateCompleted,
		dbq.Completed(nil))
	t.manyCompleted(c, c.Queue("removed"), state.None, dbq.Deleted())
}

// manyCompleted completes 60 leases by one call, some of which are lost, and wants the tasks of the others in a state.
func (t *test) manyCompleted(c *dbq.Client, q *dbq.Queue, to dbq.State, ending dbq.Outcome) {
	const n = 60
	t.enqueueMany(q, n, nil)
	tasks := t.checkout(q, n, long)
	if len(tasks) != n {
		t.Fatalf("checkout returned %d tasks, want %d", len(tasks), n)
	}
	ends := make([]dbq.Settlement, n)
	lost := map[int]dbq.Task{} // as they must stay
	for i, task := range tasks {
		ends[i] = settlement(task.Lease, ending)
		switch {
		case i%10 == 3: // out again under the next fence
			t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0)))
			again := t.take(q, long)
			lost[i] = t.get(c, again.ID)
		case i%10 == 5: // settled another way
			t.must(q.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)))
			lost[i] = t.get(c, task.ID)
		case i%10 == 7: // completed with a result
			t.must(q.Complete(t.ctx, task.Lease, []byte("kept")))
			lost[i] = t.get(c, task.ID)
		}
	}
	out, err := q.SettleMany(t.ctx, ends)
	t.must(err)
	for i, end := range ends {
		before, was := lost[i]
		switch id := end.Lease.Task; {
		case was:
			t.wantErr("completing with a lost lease", out[i].Err, dbq.ErrLeaseLost)
			t.wantUnchanged("completing with a lost lease", c, before)
		case out[i].Err != nil || out[i].State != to:
			t.Errorf("completing: got %v, %v", out[i].State, out[i].Err)
		case to == state.None:
			t.wantGone(c, id)
		default:
			if task := t.wantState(c, id, to); task.Result != nil || !task.Due.IsZero() || !task.LeaseUntil.IsZero() ||
				task.Attempt != 1 {
				t.Errorf("got %+v, want it completed without a result", task)
			}
		}
	}
}

func settlement(l dbq.Lease, o dbq.Outcome) dbq.Settlement {
	return dbq.Settlement{Lease: l, Outcome: o}
}

// completeAll completes tasks without a result, and returns the leases that were lost.
func completeAll(ctx context.Context, q *dbq.Queue, ls []dbq.Lease) (lost []dbq.Lease, err error) {
	ss := make([]dbq.Settlement, len(ls))
	for i, l := range ls {
		ss[i] = settlement(l, dbq.Completed(nil))
	}
	out, err := transcript.SettleUnlocked(ctx, q, ss)
	for i, o := range out {
		if o.Err != nil {
			lost = append(lost, ls[i])
		}
	}
	return lost, err
}
