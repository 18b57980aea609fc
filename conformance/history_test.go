package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

var taskA, taskB = uuid.MustParse("0198c1f2-0000-7000-8000-00000000000a"), uuid.MustParse("0198c1f2-0000-7000-8000-00000000000b")

// The records of a history under test. Times are small numbers; a call takes one unit unless said otherwise.
func enq(task uuid.UUID, at int64) record {
	return record{Worker: "feeder", Event: state.Enqueue, Task: task, Sent: at, Answered: at + 1, Outcome: happened}
}

func out(worker string, task uuid.UUID, fence int64, attempt int, at, until int64) record {
	return record{Worker: worker, Event: state.Checkout, Task: task, Fence: fence, Attempt: attempt, Sent: at, Answered: at + 1, Until: until, Outcome: happened}
}

func does(worker string, e state.Event, task uuid.UUID, fence, at int64, o outcome) record {
	return record{Worker: worker, Event: e, Task: task, Fence: fence, Sent: at, Answered: at + 1, Outcome: o}
}

func extended(worker string, task uuid.UUID, fence, at, until int64) record {
	r := does(worker, state.Extend, task, fence, at, happened)
	r.Until = until
	return r
}

func removing(r record) record { r.Remove = true; return r }

func is(task uuid.UUID, s dbq.State, attempt int, fence int64) dbq.Task {
	return dbq.Task{ID: task, State: s, Attempt: attempt, MaxAttempts: 3, Fence: fence}
}

func TestGoodHistories(t *testing.T) {
	for _, tt := range []struct {
		name    string
		records []record
		end     []dbq.Task
	}{
		{"nothing", nil, nil},
		{"waiting", []record{enq(taskA, 1)}, []dbq.Task{is(taskA, state.Created, 0, 0)}},
		{"completed", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), does("w", state.Complete, taskA, 1, 5, happened)},
			[]dbq.Task{is(taskA, state.Completed, 1, 1)}},
		{"in work", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100)}, []dbq.Task{is(taskA, state.Processing, 1, 1)}},
		{"taken over after the lease's end", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10), out("v", taskA, 2, 2, 11, 100),
			does("w", state.Complete, taskA, 1, 20, lost), does("v", state.Complete, taskA, 2, 21, happened)},
			[]dbq.Task{is(taskA, state.Completed, 2, 2)}},
		{"completed late, not taken over", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10), does("w", state.Complete, taskA, 1, 20, happened)},
			[]dbq.Task{is(taskA, state.Completed, 1, 1)}},
		{"taken over while the late completion is under way", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10),
			does("w", state.Complete, taskA, 1, 20, lost), out("v", taskA, 2, 2, 20, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"extended, then taken over after that", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10), extended("w", taskA, 1, 8, 20), out("v", taskA, 2, 2, 21, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"extended to an earlier end", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), extended("w", taskA, 1, 8, 20), out("v", taskA, 2, 2, 21, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"released, attempt not counted", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), does("w", state.Release, taskA, 1, 5, happened), out("v", taskA, 2, 1, 7, 100)},
			[]dbq.Task{is(taskA, state.Processing, 1, 2)}},
		{"failed for the last time", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), does("w", state.Fail, taskA, 1, 5, happened)},
			[]dbq.Task{is(taskA, state.Poison, 1, 1)}},
		{"spent by crashes", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 5), out("w", taskA, 2, 2, 7, 9), out("w", taskA, 3, 3, 11, 13)},
			[]dbq.Task{is(taskA, state.Poison, 3, 4)}},
		{"removed", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), removing(does("w", state.Complete, taskA, 1, 5, happened))}, nil},
		{"killed while enqueueing", []record{{Event: state.Enqueue, Task: taskA, Sent: 1, Outcome: maybe}}, nil},
		{"killed while completing", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), {Event: state.Complete, Task: taskA, Fence: 1, Sent: 5, Outcome: maybe}},
			[]dbq.Task{is(taskA, state.Completed, 1, 1)}},
		{"killed while checking out", []record{enq(taskA, 1), {Event: state.Checkout, Sent: 3, Outcome: maybe}, out("v", taskA, 2, 2, 50, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"revoked", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), does("o", state.Revoke, taskA, 0, 5, happened), does("w", state.Complete, taskA, 1, 7, lost),
			does("o", state.Reenqueue, taskA, 0, 9, happened), out("v", taskA, 3, 1, 11, 100)},
			[]dbq.Task{is(taskA, state.Processing, 1, 3)}},
		{"purged", []record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), does("w", state.Complete, taskA, 1, 5, happened), does("o", state.Purge, taskA, 0, 7, happened)}, nil},
		{"a duplicate", []record{{Event: state.Enqueue, Task: taskA, Sent: 1, Answered: 2, Outcome: refused}}, nil},
	} {
		if got := (history{tt.records, tt.end}).faults(); len(got) > 0 {
			t.Errorf("%s: got faults %q, want none", tt.name, got)
		}
	}
}

func TestBadHistories(t *testing.T) {
	enqueued := enq(taskA, 1)
	taken := out("w", taskA, 1, 1, 3, 100)
	done := does("w", state.Complete, taskA, 1, 5, happened)
	for _, tt := range []struct {
		name    string
		records []record
		end     []dbq.Task
		want    string // in one of the faults
	}{
		{"overlapping leases", []record{enqueued, taken, out("v", taskA, 2, 2, 50, 200)}, []dbq.Task{is(taskA, state.Processing, 2, 2)}, "at the same time"},
		{"overlap after an extension", []record{enqueued, out("w", taskA, 1, 1, 3, 10), extended("w", taskA, 1, 8, 100), out("v", taskA, 2, 2, 50, 200)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}, "at the same time"},
		{"the same fence twice", []record{enqueued, taken, out("v", taskA, 1, 2, 150, 200)}, []dbq.Task{is(taskA, state.Processing, 2, 1)}, "twice under fence 1"},
		{"a fence that went back", []record{enqueued, out("w", taskA, 5, 1, 3, 10), out("v", taskA, 4, 2, 20, 30)}, []dbq.Task{is(taskA, state.Processing, 2, 5)}, "before it was under the lower fence 4"},
		{"settled twice under one lease", []record{enqueued, taken, does("w", state.Fail, taskA, 1, 5, happened), does("w", state.Release, taskA, 1, 7, happened)},
			[]dbq.Task{is(taskA, state.Created, 0, 1)}, "was settled twice"},
		{"completed under two leases", []record{enqueued, out("w", taskA, 1, 1, 3, 10), out("v", taskA, 2, 2, 11, 100), does("w", state.Complete, taskA, 1, 11, happened),
			does("v", state.Complete, taskA, 2, 14, happened)}, []dbq.Task{is(taskA, state.Completed, 2, 2)}, "was completed 2 times"},
		{"settled by a stale lease", []record{enqueued, out("w", taskA, 1, 1, 3, 10), out("v", taskA, 2, 2, 11, 100), does("w", state.Complete, taskA, 1, 20, happened)},
			[]dbq.Task{is(taskA, state.Completed, 2, 2)}, "after it had been handed out under fence 2"},
		{"settled after a revoke", []record{enqueued, taken, does("o", state.Revoke, taskA, 0, 5, happened), does("w", state.Complete, taskA, 1, 9, happened)},
			[]dbq.Task{is(taskA, state.Completed, 1, 2)}, "after that lease was revoked"},
		{"settled without a lease", []record{enqueued, does("w", state.Complete, taskA, 7, 5, happened)}, []dbq.Task{is(taskA, state.Completed, 0, 7)}, "which nobody was given"},
		{"handed out after completion", []record{enqueued, taken, done, out("v", taskA, 2, 2, 9, 100)}, []dbq.Task{is(taskA, state.Processing, 2, 2)}, "had settled it (complete)"},
		{"handed out after poison", []record{enqueued, taken, does("w", state.PoisonIt, taskA, 1, 5, happened), out("v", taskA, 2, 2, 9, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}, "had settled it (poison)"},
		{"lost without a reason", []record{enqueued, taken, does("w", state.Complete, taskA, 1, 5, lost)}, []dbq.Task{is(taskA, state.Processing, 1, 1)}, "though nobody else"},
		{"extension lost without a reason", []record{enqueued, taken, does("w", state.Extend, taskA, 1, 5, lost)}, []dbq.Task{is(taskA, state.Processing, 1, 1)}, "though nobody else"},
		{"a lost task", []record{enqueued, taken, enq(taskB, 1)}, []dbq.Task{is(taskA, state.Processing, 1, 1)}, "is lost"},
		{"a task from nowhere", nil, []dbq.Task{is(taskA, state.Created, 0, 0)}, "nobody enqueued it"},
		{"a refused task that is there", []record{{Event: state.Enqueue, Task: taskA, Sent: 1, Answered: 2, Outcome: refused}},
			[]dbq.Task{is(taskA, state.Created, 0, 0)}, "nobody enqueued it"},
		{"twice in the end", []record{enqueued}, []dbq.Task{is(taskA, state.Created, 0, 0), is(taskA, state.Created, 0, 0)}, "twice in the end"},
		{"removed and there", []record{enqueued, taken, removing(done)}, []dbq.Task{is(taskA, state.Completed, 1, 1)}, "still there"},
		{"completed and not so", []record{enqueued, taken, done}, []dbq.Task{is(taskA, state.Error, 1, 1)}, "was completed, and is ERROR"},
		{"completed by nobody", []record{enqueued, taken}, []dbq.Task{is(taskA, state.Completed, 1, 1)}, "though nobody completed it"},
		{"touched by nobody", []record{enqueued}, []dbq.Task{is(taskA, state.Error, 0, 0)}, "nobody ever took it"},
		{"an end that does not follow", []record{enqueued, taken, does("w", state.Release, taskA, 1, 5, happened)}, []dbq.Task{is(taskA, state.Processing, 0, 1)}, "want one of [CREATED]"},
		{"poison too early", []record{enqueued, taken}, []dbq.Task{is(taskA, state.Poison, 1, 2)}, "want one of [PROCESSING]"},
		{"attempts not counted", []record{enqueued, out("w", taskA, 1, 1, 3, 10), out("v", taskA, 2, 1, 11, 100)}, []dbq.Task{is(taskA, state.Processing, 1, 2)}, "as attempt 1, want 2"},
		{"too many attempts in the end", []record{enqueued, taken}, []dbq.Task{is(taskA, state.Processing, 2, 1)}, "counts 2 attempts"},
		{"one attempt too many", []record{enqueued, out("w", taskA, 1, 1, 3, 4), out("w", taskA, 2, 2, 5, 6), out("w", taskA, 3, 3, 7, 8), out("w", taskA, 4, 4, 9, 10)},
			[]dbq.Task{is(taskA, state.Processing, 4, 4)}, "attempt 4 of at most 3"},
		{"a fence lost in the end", []record{enqueued, out("w", taskA, 7, 1, 3, 100)}, []dbq.Task{is(taskA, state.Processing, 1, 6)}, "has fence 6 in the end"},
	} {
		got := history{tt.records, tt.end}.faults()
		if !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, tt.want) }) {
			t.Errorf("%s: got faults %q, want one with %q", tt.name, got, tt.want)
		}
		if again := (history{tt.records, tt.end}).faults(); !reflect.DeepEqual(got, again) {
			t.Errorf("%s: the same history was judged %q and then %q", tt.name, got, again)
		}
	}
}

func TestManyFaultsAreCut(t *testing.T) {
	var h history
	for range 100 {
		h.records = append(h.records, enq(uuid.New(), 1))
	}
	if got := h.faults(); len(got) != maxFaults+1 {
		t.Errorf("got %d faults, want %d and a note", len(got), maxFaults)
	}
}

func TestRecordsSurviveAKill(t *testing.T) {
	var file bytes.Buffer
	r := newWallRecorder(&file)
	first := r.begin(record{Event: state.Checkout})
	r.end(r.split(first[0], 2), func(i int, rec *record) {
		rec.Outcome, rec.Task, rec.Fence = happened, []uuid.UUID{taskA, taskB}[i], 1
	})
	r.begin(record{Event: state.Complete, Task: taskA, Fence: 1})
	whole := file.Len()
	r.end([]int{2}, func(_ int, rec *record) { rec.Outcome = happened })
	for _, size := range []int{whole, whole + 10} { // killed before the last line, or in it
		got, err := readRecords(bytes.NewReader(file.Bytes()[:size]))
		if err != nil || len(got) != 3 || got[1].Task != taskB || got[2].Outcome != maybe {
			t.Errorf("of %d bytes: got %+v and error %v, want two checkouts and a completion that may have happened", size, got, err)
		}
	}
	if got, err := readRecords(bytes.NewReader(file.Bytes())); err != nil || !reflect.DeepEqual(got, r.all()) {
		t.Errorf("got %+v and error %v, want what was recorded: %+v", got, err, r.all())
	}
	if _, err := readRecords(strings.NewReader("no JSON\n")); err == nil {
		t.Errorf("a history that cannot be read: got no error")
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want outcome
	}{
		{nil, happened}, {dbq.ErrLeaseLost, lost}, {dbq.ErrDuplicate, refused}, {os.ErrClosed, refused},
		{fmt.Errorf("%w: %w", dbq.ErrMayHaveHappened, errors.New("cut")), maybe},
		{fmt.Errorf("%w: %w", dbq.ErrMayHaveHappened, dbq.ErrLeaseLost), maybe},
	} {
		if got := outcomeOf(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestClockOfOneProcessIsMonotonic(t *testing.T) {
	r := newRecorder()
	now := time.Now()
	if got := r.at(now.Add(time.Second)) - r.at(now); got != int64(time.Second) {
		t.Errorf("a second takes %d ns", got)
	}
}
