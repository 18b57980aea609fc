package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// keepingCases are the history of attempts, and what is kept of tasks that have ended.
func keepingCases() []Case {
	return inGroup("Keeping",
		Case{Name: "AttemptsRoundTrip", once: true, run: keepingAttempts,
			Law: "Recorded attempts come back in order with all that was said about them, and recording them again changes nothing."},
		Case{Name: "TakenOverIsTold", run: keepingTakenOver,
			Law: "A checkout that takes a task over tells which attempt had crashed, who made it, and when."},
		Case{Name: "CleanRemovesWhatIsOld", once: true, run: keepingClean,
			Law: "Cleaning removes the ended tasks of one queue that are older than their state is kept, and nothing else."},
		Case{Name: "CleanFindsWhatEndsLate", once: true, run: keepingLate,
			Law: "A task that ends after cleaning has passed it is removed within a quarter of its retention after its time."},
		Case{Name: "ArchiveKeepsEverything", once: true, run: keepingArchive,
			Law: "Cleaning into the archive keeps every column of a task, also when it is repeated or cut off."},
		Case{Name: "CleanManyBatches", once: true, run: keepingManyBatches,
			Law: "Cleaning goes over as many batches as it takes, and several may clean at once."},
		Case{Name: "CleanBesideWorkers", alone: true, once: true, run: keepingBesideWorkers,
			Law: "Cleaning beside busy workers takes no task that has not ended, and fails nobody."},
	)
}

func keepingAttempts(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id, other := dbq.NewID(), dbq.NewID()
	at := time.Date(2026, 3, 29, 1, 59, 59, 123456000, time.UTC)
	want := []dbq.Attempt{
		{Task: id, Queue: "q", Attempt: 1, Fence: 1, Outcome: dbq.OutcomeFailed, Started: at, Ended: at.Add(time.Second), Worker: "wörker 1", Error: "no \xff' \"mail\""},
		{Task: id, Queue: "q", Attempt: 2, Fence: 2, Outcome: dbq.OutcomeReleased, Started: at, Ended: at, Worker: "w"},
		{Task: id, Queue: "q", Attempt: 2, Fence: 3, Outcome: dbq.OutcomeCrashed, Started: at, Ended: at.Add(time.Hour), Worker: ""},
		{Task: id, Queue: "q", Attempt: 3, Fence: 4, Outcome: dbq.OutcomePoisoned, Started: at, Ended: at, Worker: "w", Error: "x"},
	}
	t.Must(q.Record(t.ctx, []dbq.Attempt{want[2], {Task: other, Attempt: 1, Fence: 1, Outcome: dbq.OutcomeCompleted, Started: at, Ended: at}, want[0]}))
	t.Must(q.Record(t.ctx, []dbq.Attempt{want[3], want[1], want[0]}))
	changed := want[0]
	changed.Error, changed.Outcome = "another story", dbq.OutcomeCompleted
	t.Must(q.Record(t.ctx, []dbq.Attempt{changed}))
	t.Must(q.Record(t.ctx, nil))
	got, err := t.Open().Attempts(t.ctx, id)
	t.Must(err)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got, err := c.Attempts(t.ctx, dbq.NewID()); err != nil || len(got) != 0 {
		t.Errorf("a task without history has %v, %v", got, err)
	}
	long := want[0]
	long.Fence, long.Error = 9, strings.Repeat("é", dbq.MaxResult)
	t.Must(q.Record(t.ctx, []dbq.Attempt{long}))
	if got, err := c.Attempts(t.ctx, id); err != nil || len(got) != 5 || len(got[4].Error) > dbq.MaxResult {
		t.Errorf("a long error was not cut to %d bytes: %v", dbq.MaxResult, err)
	}
	t.WantErr("an attempt without outcome", q.Record(t.ctx, []dbq.Attempt{{Task: id}}), dbq.ErrOption)
}

func keepingTakenOver(t *T) {
	c := t.Open(dbq.WithName("the first"))
	q := c.Queue("q")
	before := t.now(c)
	first := t.takeNew(q, dbq.NewTask{MaxAttempts: 2}, short)
	if first.TakenOver != nil {
		t.Errorf("a new task was taken over from %+v", first.TakenOver)
	}
	row := t.get(c, first.ID)
	t.ranOut(c, first.ID)
	second := t.takeOver(t.Open(dbq.WithName("the second")).Queue("q"), first.ID, short)
	was := second.TakenOver
	if was == nil {
		t.Fatalf("the checkout does not tell that it took the task over")
	}
	if was.Task != first.ID || was.Queue != "q" || was.Attempt != 1 || was.Fence != first.Fence || was.Outcome != dbq.OutcomeCrashed ||
		was.Worker != c.ID() || !strings.HasPrefix(row.Holder, was.Worker+"#") || !was.Started.Equal(row.Updated) || !was.Ended.Equal(row.LeaseUntil) || was.Started.Before(before.Add(-time.Second)) {
		t.Errorf("got %+v of a task that was %+v", was, row)
	}
	t.Must(q.Record(t.ctx, []dbq.Attempt{*was}))
	for _, worker := range []string{"mail/1", strings.Repeat("😀", dbq.MaxWorkerID), c.ID() + "/7", "#"} {
		q := c.Queue(fmt.Sprintf("of %d", len(worker))).ForWorker(worker)
		id := t.takeNew(q, dbq.NewTask{}, short).ID
		t.ranOut(c, id)
		if task := t.takeOver(q, id, long); task.TakenOver == nil || task.TakenOver.Worker != worker {
			t.Errorf("a task of the worker %q was taken over from %+v", worker, task.TakenOver)
		}
		t.Must(c.Revoke(t.ctx, id))
		attempts, err := c.Attempts(t.ctx, id)
		if err != nil || len(attempts) != 1 || attempts[0].Worker != worker {
			t.Errorf("a task of the worker %q was revoked, and the history has %+v (%v)", worker, attempts, err)
		}
	}
	_, err := c.Queue("q").ForWorker(strings.Repeat("x", dbq.MaxWorkerID+1)).Checkout(t.ctx, 1, long)
	t.WantErr("a worker's id that is too long", err, dbq.ErrOption)
	got, err := c.Attempts(t.ctx, first.ID)
	if err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(*was) {
		t.Errorf("got %v, %v, want what was recorded: %v", got, err, *was)
	}
}

// mixed makes tasks of every state in a queue: completed, poison, parked, and those that have not ended.
func (t *T) mixed(q *dbq.Queue) (completed, poison, parked uuid.UUID, living []uuid.UUID) {
	settle := func(s func(l dbq.Lease) dbq.Settlement, nt dbq.NewTask) uuid.UUID {
		task := t.takeNew(q, nt, long)
		out, err := q.Settle(t.ctx, []dbq.Settlement{s(task.Lease)})
		t.Must(err)
		t.Must(out[0].Err)
		return task.ID
	}
	full := dbq.NewTask{Kind: "kïnd", Payload: []byte("\x00\xffpayload"), Priority: 3, MaxAttempts: 5, Headers: map[string]string{"k": "v"}}
	full.Reference = "completed"
	completed = settle(func(l dbq.Lease) dbq.Settlement { return dbq.Completed(l, []byte("\xfe result")) }, full)
	full.Reference = "poison"
	poison = settle(func(l dbq.Lease) dbq.Settlement { return dbq.Poisoned(l, errBoom) }, full)
	full.Reference = "parked"
	parked = settle(func(l dbq.Lease) dbq.Settlement { return dbq.Failed(l, dbq.Park, errBoom) }, full)
	living = []uuid.UUID{
		settle(func(l dbq.Lease) dbq.Settlement { return dbq.Failed(l, dbq.RetryIn(long), errBoom) }, dbq.NewTask{}),
		t.takeNew(q, dbq.NewTask{}, long).ID,
		t.enqueue(q, dbq.NewTask{Delay: long}),
	}
	return completed, poison, parked, living
}

// aged waits until a task has been in its state for longer than a while.
func (t *T) aged(c *dbq.Client, id uuid.UUID, while time.Duration) {
	task := t.get(c, id)
	t.eventually("the task is old enough", func() bool { return t.now(c).After(task.Updated.Add(while + 2*c.Server().Precision)) })
}

func keepingClean(t *T) {
	const keep = 50 * time.Millisecond
	c := t.Open()
	q, other := c.Queue("q"), c.Queue("other")
	completed, poison, parked, living := t.mixed(q)
	kept := t.takeNew(other, dbq.NewTask{}, long)
	t.Must(other.Complete(t.ctx, kept.Lease, nil))
	t.Must(q.Record(t.ctx, []dbq.Attempt{{Task: completed, Attempt: 1, Fence: 1, Outcome: dbq.OutcomeCompleted, Ended: t.now(c)}}))
	t.aged(c, kept.ID, keep)
	clean := func(r dbq.Retention, tasks, attempts int) {
		done, err := q.Clean(t.ctx, r)
		t.Must(err)
		if done != (dbq.Cleaned{Tasks: tasks, Attempts: attempts}) {
			t.Errorf("cleaning %+v did %+v, want %d tasks and %d attempts", r, done, tasks, attempts)
		}
	}
	clean(dbq.Retention{}, 0, 0)
	clean(dbq.Retention{Completed: time.Hour, Poison: time.Hour, Parked: time.Hour, Attempts: time.Hour}, 0, 0)
	clean(dbq.Retention{Poison: keep}, 1, 0)
	t.wantGone(c, poison)
	t.get(c, completed)
	clean(dbq.Retention{Completed: keep, Parked: keep, Attempts: keep}, 2, 1)
	t.wantGone(c, completed)
	t.wantGone(c, parked)
	if left, err := c.Attempts(t.ctx, completed); err != nil || len(left) != 0 {
		t.Errorf("the history still has %v, %v", left, err)
	}
	for _, id := range append(living, kept.ID) {
		t.get(c, id)
	}
	_, err := q.Clean(t.ctx, dbq.Retention{Completed: -1})
	t.WantErr("a negative retention", err, dbq.ErrOption)
}

func keepingLate(t *T) {
	const keep = 400 * time.Millisecond
	c := t.Open(dbq.WithClock(func() time.Time { return time.Now().Add(-time.Hour) })) // so that cleaning passes the ids at once
	q := c.Queue("q")
	early, late := t.takeNew(q, dbq.NewTask{}, long), t.takeNew(q, dbq.NewTask{}, long)
	t.Must(q.Complete(t.ctx, early.Lease, nil))
	t.aged(c, early.ID, keep)
	clean := func() int {
		done, err := q.Clean(t.ctx, dbq.Retention{Completed: keep})
		t.Must(err)
		return done.Tasks
	}
	if n := clean(); n != 1 {
		t.Errorf("%d tasks were removed, want the one that had ended", n)
	}
	t.Must(q.Complete(t.ctx, late.Lease, nil))
	if n := clean(); n != 0 {
		t.Errorf("%d tasks were removed before their time", n)
	}
	t.aged(c, late.ID, keep+keep/4)
	if n := clean(); n != 1 {
		t.Errorf("%d tasks were removed, want the one that ended late", n)
	}
}

func keepingArchive(t *T) {
	const keep = 20 * time.Millisecond
	c := t.Open()
	q := c.Queue("q")
	completed, poison, parked, _ := t.mixed(q)
	var want []dbq.Task
	for _, id := range []uuid.UUID{completed, poison, parked} {
		task := t.get(c, id)
		task.Payload = nil // listings leave it out
		want = append(want, task)
	}
	t.aged(c, parked, keep)
	cut, cancel := context.WithCancel(t.ctx)
	cancel()
	if done, err := q.Clean(cut, dbq.Retention{Completed: keep, Archive: true}); err == nil || done.Tasks != 0 {
		t.Errorf("a cancelled clean did %+v, %v", done, err)
	}
	all := dbq.Retention{Completed: keep, Poison: keep, Parked: keep, Archive: true}
	if done, err := q.Clean(t.ctx, all); err != nil || done.Tasks != 3 {
		t.Errorf("cleaned %+v, %v, want 3 tasks", done, err)
	}
	if done, err := q.Clean(t.ctx, all); err != nil || done.Tasks != 0 {
		t.Errorf("cleaned %+v, %v once more", done, err)
	}
	got, err := c.Archived(t.ctx, dbq.Filter{Queue: "q"})
	t.Must(err)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the archive has %v\nwant %v", got, want)
	}
	got, err = c.Archived(t.ctx, dbq.Filter{Queue: "q", States: []dbq.State{dbq.StatePoison}})
	t.Must(err)
	if len(got) != 1 || got[0].ID != poison {
		t.Errorf("got %v, want the poison one", got)
	}
	for _, task := range want { // the reference is free again
		t.wantGone(c, task.ID)
		t.enqueue(q, dbq.NewTask{Reference: task.Reference})
	}
}

func keepingManyBatches(t *T) {
	const n = 1234
	c := t.Open()
	q := c.Queue("q")
	t.enqueueMany(q, n, nil)
	for done := 0; done < n; {
		tasks := t.checkout(q, 500, long)
		ls := make([]dbq.Lease, len(tasks))
		for i, task := range tasks {
			ls[i] = task.Lease
		}
		lost, err := q.CompleteMany(t.ctx, ls)
		t.Must(err)
		done += len(ls) - len(lost)
	}
	last := t.list(c, dbq.Filter{Queue: "q", Limit: n})
	t.aged(c, last[len(last)-1].ID, time.Second)
	sums := make([]int, 3)
	t.together(len(sums), func(ctx context.Context, i int) {
		cleaned, err := q.Clean(ctx, dbq.Retention{Completed: time.Millisecond})
		if err != nil {
			t.Errorf("cleaning: %v", err)
		}
		sums[i] = cleaned.Tasks
	})
	if sum := sums[0] + sums[1] + sums[2]; sum != n {
		t.Errorf("%v were cleaned, want %d in all", sums, n)
	}
}

func keepingBesideWorkers(t *T) {
	const n, workers = 600, 3
	c := t.Open()
	q := c.Queue("q")
	ids := t.enqueueMany(q, n, nil)
	stop := make(chan struct{})
	cleaned := make(chan int, 1)
	go func() {
		sum := 0
		defer func() { cleaned <- sum }()
		for {
			done, err := q.Clean(t.ctx, dbq.Retention{Completed: time.Millisecond, Archive: true})
			if err != nil {
				t.Errorf("cleaning: %v", err)
				return
			}
			sum += done.Tasks
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	t.together(workers, func(ctx context.Context, _ int) {
		mine := t.Open().Queue("q")
		for empty := 0; empty < 3 && ctx.Err() == nil; {
			tasks, err := mine.Checkout(ctx, 7, long)
			if err != nil {
				t.Errorf("checkout: %v", err)
				return
			}
			if len(tasks) == 0 {
				empty++
				time.Sleep(5 * time.Millisecond)
			}
			for _, task := range tasks {
				if err := mine.Complete(ctx, task.Lease, nil); err != nil {
					t.Errorf("complete: %v", err)
				}
			}
		}
	})
	close(stop)
	sum := <-cleaned
	left := len(t.list(c, dbq.Filter{Queue: "q", States: []dbq.State{dbq.StateCompleted}, Limit: n}))
	archived, err := c.Archived(t.ctx, dbq.Filter{Queue: "q", Limit: n})
	t.Must(err)
	if sum+left != len(ids) || len(archived) != sum {
		t.Errorf("of %d tasks %d were cleaned, %d are in the archive and %d are COMPLETED", len(ids), sum, len(archived), left)
	}
}
