package cases

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func operateFilter(t *test) {
	c := t.open()
	q := c.Queue("q")
	held := t.takeNew(c.Queue("held"), dbq.NewTask{Kind: "h"}, long)
	holder := sqlrun.WorkerOf(t.get(c, held.ID).Holder)
	parked := t.takeNew(q, dbq.NewTask{Kind: "a", Reference: "parked"}, long)
	t.must(q.Settle(t.ctx, parked.Lease, dbq.Parked(errBoom)))
	retried := t.takeNew(q, dbq.NewTask{Kind: "a"}, long)
	t.must(q.Settle(t.ctx, retried.Lease, dbq.RetryIn(long, errBoom)))
	poison := t.takeNew(q, dbq.NewTask{Kind: "b"}, long)
	t.must(q.Settle(t.ctx, poison.Lease, dbq.Poisoned(errBoom)))
	other := t.takeNew(c.Queue("Q"), dbq.NewTask{Kind: "a", Reference: "parked"}, long)
	t.must(c.Queue("Q").Settle(t.ctx, other.Lease, dbq.Poisoned(errBoom)))
	waiting := t.enqueue(q, dbq.NewTask{Kind: "A"})

	all := []uuid.UUID{held.ID, parked.ID, retried.ID, poison.ID, other.ID, waiting}
	for _, tt := range []struct {
		f    admin.Filter
		want []uuid.UUID
	}{
		{admin.Filter{}, all},
		{admin.Filter{Queue: "q"}, []uuid.UUID{parked.ID, retried.ID, poison.ID, waiting}},
		{admin.Filter{Queue: "Q"}, []uuid.UUID{other.ID}},
		{admin.Filter{Queue: "nobody's"}, nil},
		{admin.Filter{States: []dbq.State{dbq.StateError}}, []uuid.UUID{parked.ID, retried.ID}},
		{admin.Filter{States: []dbq.State{dbq.StatePoison, dbq.StateCreated}}, []uuid.UUID{poison.ID, other.ID, waiting}},
		{admin.Filter{Queue: "q", States: []dbq.State{dbq.StateCompleted}}, nil},
		{admin.Filter{Kind: "a"}, []uuid.UUID{parked.ID, retried.ID, other.ID}},
		{admin.Filter{Kind: "A"}, []uuid.UUID{waiting}},
		{admin.Filter{Reference: "parked"}, []uuid.UUID{parked.ID, other.ID}},
		{admin.Filter{Queue: "q", Reference: "parked"}, []uuid.UUID{parked.ID}},
		{admin.Filter{ParkedOnly: true}, []uuid.UUID{parked.ID}},
		{admin.Filter{After: retried.ID}, []uuid.UUID{poison.ID, other.ID, waiting}},
		{admin.Filter{Queue: "q", Kind: "a", States: []dbq.State{dbq.StateError}, After: parked.ID}, []uuid.UUID{retried.ID}},
		{admin.Filter{Limit: 2}, all[:2]},
		{admin.Filter{Limit: 2, NewestFirst: true}, []uuid.UUID{waiting, other.ID}},
		{admin.Filter{Limit: 2, NewestFirst: true, Before: other.ID}, []uuid.UUID{poison.ID, retried.ID}},
		{admin.Filter{InStateFor: long}, nil},
		{admin.Filter{Holder: holder}, []uuid.UUID{held.ID}},
		{admin.Filter{Holder: holder, Queue: "held"}, []uuid.UUID{held.ID}},
		{admin.Filter{Holder: holder, Queue: "q"}, nil},
		{admin.Filter{Holder: t.get(c, held.ID).Holder, Queue: "held"}, []uuid.UUID{held.ID}},
		{admin.Filter{Holder: holder[:len(holder)-1], Queue: "held"}, nil},
		{admin.Filter{Holder: holder + "_"}, nil},
	} {
		got, err := admin.New(c).List(t.ctx, tt.f)
		if err != nil {
			t.Fatalf("list %+v: %v", tt.f, err)
		}
		t.wantIDs(fmt.Sprintf("list %+v", tt.f), got, tt.want)
		if len(got) > 1 && (got[0].ID.String() > got[1].ID.String()) != tt.f.NewestFirst {
			t.Errorf("list %+v begins with %v, then %v", tt.f, got[0].ID, got[1].ID)
		}
		page, err := admin.New(c).ListPage(t.ctx, tt.f)
		if err != nil || page.Stopped {
			t.Errorf("page %+v: stopped %v, error %v", tt.f, page.Stopped, err)
		}
		t.wantIDs(fmt.Sprintf("page %+v", tt.f), page.Tasks, tt.want)
	}
	for _, tt := range []struct {
		f    admin.Filter
		want int
	}{
		{admin.Filter{Kind: "a", Queue: "q", ParkedOnly: true}, 1},
		{admin.Filter{Kind: "a", Queue: "q"}, 2},
		{admin.Filter{Kind: "a"}, 3},
		{admin.Filter{Queue: "q", States: []dbq.State{dbq.StatePoison}}, 1},
		{admin.Filter{Reference: "parked"}, 2},
		{admin.Filter{Queue: "q", States: []dbq.State{dbq.StateCompleted}}, 0},
	} {
		n, more, err := admin.New(c).CountMovable(t.ctx, admin.Reenqueue, tt.f)
		if n != tt.want || more || err != nil {
			t.Errorf("of %+v, %d can be reenqueued, more %v, error %v, want %d", tt.f, n, more, err, tt.want)
		}
	}
	// The same narrowing for a change; what the event cannot take is left out, not an error.
	done, err := admin.New(c).
		OperateMany(t.ctx, admin.Reenqueue, admin.Filter{Kind: "a", Queue: "q", ParkedOnly: true, Limit: 10})
	if done.Changed != 1 || err != nil {
		t.Errorf("reenqueue of what is parked: got %+v and error %v, want 1", done, err)
	}
	_, err = admin.New(c).OperateMany(t.ctx, admin.Reenqueue, admin.Filter{Kind: "a", NewestFirst: true, Limit: 10})
	t.wantInvalid("reenqueue the newest first", err, dbq.ErrFilter)
	t.wantState(c, parked.ID, dbq.StateCreated)
	t.wantState(c, retried.ID, dbq.StateError)
	t.wantState(c, poison.ID, dbq.StatePoison)
	t.wantState(c, other.ID, dbq.StatePoison)
}

func operateInStateFor(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.enqueueMany(q, 2, nil)
	tasks := t.checkout(q, 2, long)
	if len(tasks) != 2 {
		t.Fatalf("got %d tasks, want 2", len(tasks))
	}
	old, young := tasks[0], tasks[1]
	t.must(q.Complete(t.ctx, old.Lease, nil))
	const age = 200 * time.Millisecond
	since := t.get(c, old.ID).Updated
	t.eventually("the first completion has some age", func() bool { return t.now(c).Sub(since) > age })
	t.must(q.Complete(t.ctx, young.Lease, nil)) // enqueued before, completed just now

	from := t.now(c)
	listed := idsOf(t.list(c, admin.Filter{Queue: "q", InStateFor: age}))
	to := t.now(c)
	for _, task := range t.list(c, admin.Filter{Queue: "q"}) {
		there := slices.Contains(listed, task.ID)
		if !there && !task.Updated.After(from.Add(-age)) || there && task.Updated.After(to.Add(-age)) {
			t.Errorf("listed is %v for a task completed at %v, asked between %v and %v with InStateFor %v", there,
				task.Updated, from, to, age)
		}
	}
	done, err := admin.New(c).OperateMany(t.ctx, admin.Purge, admin.Filter{InStateFor: long, Limit: 10})
	if done.Changed != 0 || err != nil {
		t.Errorf("purge of what is an hour old: got %+v and error %v, want none", done, err)
	}
	_, err = admin.New(c).OperateMany(t.ctx, admin.Purge, admin.Filter{InStateFor: age, Limit: 10})
	t.must(err)
	t.wantGone(c, old.ID)
}

func operateList(t *test) {
	c := t.open()
	q := c.Queue("q")
	want := sortedIDs(t.enqueueMany(q, 57, func(i int, nt *dbq.NewTask) { nt.Payload = []byte("not listed") }))
	var got []dbq.Task
	f := admin.Filter{Queue: "q", Limit: 10}
	for {
		page, err := admin.New(c).List(t.ctx, f)
		t.must(err)
		got = append(got, page...)
		if len(page) < f.Limit {
			break
		}
		f.After = page[len(page)-1].ID
		for _, task := range t.checkout(q, 5, long) { // somebody works meanwhile
			t.must(q.Complete(t.ctx, task.Lease, nil))
		}
	}
	t.wantIDs("all pages", got, want)
	if got[0].Payload != nil || got[0].Queue != "q" || got[0].Created.IsZero() {
		t.Errorf("a listed task is %s, want it whole but for its payload", show(got[0]))
	}
	last := f
	last.After, last.Limit = want[56], 0
	page, err := admin.New(c).List(t.ctx, last)
	if len(page) != 0 || err != nil {
		t.Errorf("behind the last task: got %d tasks and error %v, want none", len(page), err)
	}
}

func operateStats(t *test) {
	c := t.open()
	if stats, err := admin.New(c).Stats(t.ctx); len(stats) != 0 || err != nil {
		t.Errorf("without tasks: got %+v and error %v, want nothing", stats, err)
	}
	for _, s := range situations()[1:] { // all but absent
		s.reach(t, c.Queue(s.name), dbq.NewTask{})
	}
	const lag = 10 * time.Minute
	b := c.Queue("a backlog")
	t.enqueueMany(b, 3, nil)
	t.enqueueMany(b, 4, func(_ int, nt *dbq.NewTask) { nt.Delay = long })
	t.enqueue(b, dbq.NewTask{RunAt: t.now(c).Add(-lag), Priority: 9})

	for _, opts := range [][]admin.StatsOption{nil, {admin.CountAll()}, {admin.CountUpTo(100)}} {
		stats, err := admin.New(c).Stats(t.ctx, opts...)
		t.must(err)
		t.wantStats(stats, b, lag)
		for _, want := range stats {
			got, err := admin.New(c).StatsOf(t.ctx, want.Queue, opts...)
			t.must(err)
			later := got.OldestDue - want.OldestDue
			got.OldestDue = want.OldestDue
			if !reflect.DeepEqual(got, want) || later < 0 || later > Timeout {
				t.Errorf("StatsOf returned %+v, due for %v longer than in Stats: %+v", got, later, want)
			}
		}
	}
	none, err := admin.New(c).StatsOf(t.ctx, "no tasks")
	if none.Queue != "no tasks" || len(none.Count) != len(state.All()) || none.Count[state.Completed] != 0 || err != nil {
		t.Errorf("of a queue without tasks: got %+v and error %v, want zeros", none, err)
	}
}

// wantStats holds the statistics of one task in each situation, and of the backlog b.
func (t *test) wantStats(stats []admin.QueueStats, b *dbq.Queue, lag time.Duration) {
	if !slices.IsSortedFunc(stats, func(x, y admin.QueueStats) int { return strings.Compare(x.Queue, y.Queue) }) {
		t.Errorf("the queues are not sorted by name")
	}
	byName := map[string]admin.QueueStats{}
	for _, s := range stats {
		byName[s.Queue] = s
		if len(s.AtLeast) > 0 {
			t.Errorf("%s is reported to have at least %v in %v", s.Queue, s.Count, s.AtLeast)
		}
	}
	if len(byName) != len(situations()) || len(stats) != len(byName) {
		t.Errorf("stats of %d queues, %d of them different, want %d", len(stats), len(byName), len(situations()))
	}
	for _, s := range situations()[1:] {
		got := byName[s.name]
		for _, st := range state.All() {
			want := int64(0)
			if st == s.state {
				want = 1
			}
			if n, listed := got.Count[st]; n != want || !listed {
				t.Errorf("a task in %s is counted as %d in %v (there: %v), want %d", s.name, n, st, listed, want)
			}
		}
		if want := slices.Contains(s.holds, state.IfParked); (got.Parked == 1) != want {
			t.Errorf("a task in %s is counted as %d parked", s.name, got.Parked)
		}
		if want := slices.Contains(s.holds, state.IfDue); s.state != dbq.StateProcessing && (got.Due == 1) != want {
			t.Errorf("a task in %s is counted as %d due", s.name, got.Due)
		}
	}
	got := byName[b.Name()]
	if got.Count[dbq.StateCreated] != 8 || got.Due != 4 || got.Parked != 0 {
		t.Errorf("got %+v, want 8 tasks of which 4 are due", got)
	}
	if got.OldestDue < lag || got.OldestDue > lag+Timeout {
		t.Errorf("the oldest has been due for %v, want %v or little more", got.OldestDue, lag)
	}
}

func operateStatsMany(t *test) {
	c := t.open()
	const queues = 230
	name := func(i int) string { return fmt.Sprintf("%03d", i) }
	for i := range queues - 1 {
		t.enqueueMany(c.Queue(name(i)), i%3+1, nil)
	}
	for _, last := range []int{queues - 1, queues} { // the second time, the client knows the others
		stats, err := admin.New(c).Stats(t.ctx)
		t.must(err)
		if len(stats) != last {
			t.Fatalf("%d queues have tasks, Stats returns %d", last, len(stats))
		}
		for i, s := range stats {
			if want := int64(i%3 + 1); s.Queue != name(i) || s.Count[dbq.StateCreated] != want || s.Due != want {
				t.Errorf("queue %s has %d tasks, got %+v", name(i), want, s)
			}
		}
		t.enqueueMany(c.Queue(name(queues-1)), (queues-1)%3+1, nil)
	}
}

func operateStatsUpTo(t *test) {
	const n, most, lag = 12, 5, 10 * time.Minute
	c := t.open()
	waiting, busy, failed := c.Queue("waiting"), c.Queue("busy"), c.Queue("failed")
	t.enqueueMany(waiting, n, nil)
	t.enqueue(waiting, dbq.NewTask{RunAt: t.now(c).Add(-lag), Priority: 9})
	t.enqueueMany(busy, n, nil)
	t.checkout(busy, n, long)
	t.enqueueMany(failed, 2*n, nil)
	for i, task := range t.checkout(failed, 2*n, long) {
		if i%2 == 0 {
			t.must(failed.Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)))
		} else {
			t.must(failed.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)))
		}
	}
	stats, err := admin.New(c).Stats(t.ctx, admin.CountUpTo(most))
	t.must(err)
	byName := map[string]admin.QueueStats{}
	for _, s := range stats {
		byName[s.Queue] = s
	}
	for name, states := range map[string][]dbq.State{
		"waiting": {dbq.StateCreated}, "busy": {dbq.StateProcessing}, "failed": {dbq.StateError, dbq.StatePoison},
	} {
		for _, s := range states {
			got := byName[name]
			if got.Count[s] > n+1 || !slices.Contains(got.AtLeast, s) {
				t.Errorf("counting to %d found %d tasks %v in %s, and says that there may be more in %v", most, got.Count[s], s,
					name, got.AtLeast)
			}
		}
	}
	if got := byName["waiting"]; got.OldestDue < lag || got.Due < most {
		t.Errorf("%d are due, the oldest for %v, want at least %d and %v", got.Due, got.OldestDue, most, lag)
	}
	_, err = admin.New(c).Stats(t.ctx, admin.CountUpTo(0))
	t.wantErr("counting to 0", err, dbq.ErrCount)
}

func operateWait(t *test) {
	c, worker := t.open(), t.open()
	q := worker.Queue("q")
	for name, tt := range map[string]struct {
		end  func(l dbq.Lease) error
		want string
	}{
		"complete": {func(l dbq.Lease) error { return q.Complete(t.ctx, l, []byte("result")) }, "COMPLETED result"},
		"poison":   {func(l dbq.Lease) error { return q.Settle(t.ctx, l, dbq.Poisoned(errBoom)) }, "POISON boom"},
		"park":     {func(l dbq.Lease) error { return q.Settle(t.ctx, l, dbq.Parked(errBoom)) }, "ERROR boom"},
	} {
		id := t.enqueue(q, dbq.NewTask{})
		got := make(chan string)
		go func() {
			task, err := c.Wait(t.ctx, id)
			if err != nil {
				got <- err.Error()
			} else {
				got <- task.State.String() + " " + string(task.Result)
			}
		}()
		t.must(q.Settle(t.ctx, t.take(q, long).Lease, dbq.RetryIn(0, errors.New("not the end"))))
		t.must(tt.end(t.take(q, long).Lease))
		if g := <-got; g != tt.want {
			t.Errorf("wait for %s: got %q, want %q", name, g, tt.want)
		}
	}
}

func operateWaitEnds(t *test) {
	c := t.open()
	q := c.Queue("q")
	_, err := c.Wait(t.ctx, dbq.NewID())
	t.wantErr("wait for no task", err, dbq.ErrNotFound)
	id := t.enqueue(q, dbq.NewTask{})
	ctx, cancel := context.WithTimeout(t.ctx, 30*time.Millisecond)
	defer cancel()
	_, err = c.Wait(ctx, id)
	t.wantErr("wait until its context ends", err, context.DeadlineExceeded)
	gone := make(chan error)
	go func() {
		_, err := c.Wait(t.ctx, id)
		gone <- err
	}()
	t.must(q.Settle(t.ctx, t.take(q, long).Lease, dbq.Deleted()))
	t.wantErr("wait for a task that is removed", <-gone, dbq.ErrNotFound)
	var e *dbq.Error
	if !errors.As(err, &e) || e.Op != "wait" || e.Task != id || e.Class != dialect.Unknown {
		t.Errorf("the error says %+v, want op wait and task %s", e, id)
	}
}
