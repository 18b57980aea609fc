package transcript

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

var taskA, taskB = uuid.MustParse("0198c1f2-0000-7000-8000-00000000000a"),
	uuid.MustParse("0198c1f2-0000-7000-8000-00000000000b")

// The records of a transcript under test. Times are small numbers; a call takes one unit unless said otherwise.
func enq(task uuid.UUID, at int64) Record {
	return Record{Worker: "feeder", Event: state.Enqueue, TaskID: task, Sent: at, Answered: at + 1, Answer: Happened}
}

func out(worker string, task uuid.UUID, fence int64, attempt int, at, until int64) Record {
	return Record{Worker: worker, Event: state.Checkout, TaskID: task, Fence: fence, Attempt: attempt, Sent: at,
		Answered: at + 1, Until: until, Answer: Happened}
}

func does(worker string, e state.Event, task uuid.UUID, fence, at int64, o Answer) Record {
	return Record{Worker: worker, Event: e, TaskID: task, Fence: fence, Sent: at, Answered: at + 1, Answer: o}
}

func extended(worker string, task uuid.UUID, fence, at, until int64) Record {
	r := does(worker, state.Extend, task, fence, at, Happened)
	r.Until = until
	return r
}

func removing(r Record) Record { r.Remove = true; return r }

func is(task uuid.UUID, s dbq.State, attempt int, fence int64) dbq.Task {
	return dbq.Task{ID: task, State: s, Attempt: attempt, MaxAttempts: 3, Fence: fence}
}

func TestGoodTranscripts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		records []Record
		end     []dbq.Task
	}{
		{"nothing", nil, nil},
		{"waiting", []Record{enq(taskA, 1)}, []dbq.Task{is(taskA, state.Created, 0, 0)}},
		{"completed", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100),
			does("w", state.Complete, taskA, 1, 5, Happened)},
			[]dbq.Task{is(taskA, state.Completed, 1, 1)}},
		{"leased", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100)}, []dbq.Task{is(taskA, state.Processing, 1, 1)}},
		{"taken over after the lease's end", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10),
			out("v", taskA, 2, 2, 11, 100),
			does("w", state.Complete, taskA, 1, 20, Lost), does("v", state.Complete, taskA, 2, 21, Happened)},
			[]dbq.Task{is(taskA, state.Completed, 2, 2)}},
		{"completed late, not taken over", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10),
			does("w", state.Complete, taskA, 1, 20, Happened)},
			[]dbq.Task{is(taskA, state.Completed, 1, 1)}},
		{"taken over while the late completion is under way", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10),
			does("w", state.Complete, taskA, 1, 20, Lost), out("v", taskA, 2, 2, 20, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"extended, then taken over after that", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 10),
			extended("w", taskA, 1, 8, 20), out("v", taskA, 2, 2, 21, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"extended to an earlier end", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), extended("w", taskA, 1, 8, 20),
			out("v", taskA, 2, 2, 21, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"released, attempt not counted", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100),
			does("w", state.Release, taskA, 1, 5, Happened), out("v", taskA, 2, 1, 7, 100)},
			[]dbq.Task{is(taskA, state.Processing, 1, 2)}},
		{"failed for the last time", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100),
			does("w", state.Fail, taskA, 1, 5, Happened)},
			[]dbq.Task{is(taskA, state.Poison, 1, 1)}},
		{"exhausted by crashes", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 5), out("w", taskA, 2, 2, 7, 9),
			out("w", taskA, 3, 3, 11, 13)},
			[]dbq.Task{is(taskA, state.Poison, 3, 4)}},
		{"removed", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100),
			removing(does("w", state.Complete, taskA, 1, 5, Happened))}, nil},
		{"killed while enqueueing", []Record{{Event: state.Enqueue, TaskID: taskA, Sent: 1, Answer: Maybe}}, nil},
		{"killed while completing", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100),
			{Event: state.Complete, TaskID: taskA, Fence: 1, Sent: 5, Answer: Maybe}},
			[]dbq.Task{is(taskA, state.Completed, 1, 1)}},
		{"killed while checking out", []Record{enq(taskA, 1), {Event: state.Checkout, Sent: 3, Answer: Maybe},
			out("v", taskA, 2, 2, 50, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}},
		{"revoked", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), does("o", state.Revoke, taskA, 0, 5, Happened),
			does("w", state.Complete, taskA, 1, 7, Lost),
			does("o", state.Reenqueue, taskA, 0, 9, Happened), out("v", taskA, 3, 1, 11, 100)},
			[]dbq.Task{is(taskA, state.Processing, 1, 3)}},
		{"purged", []Record{enq(taskA, 1), out("w", taskA, 1, 1, 3, 100), does("w", state.Complete, taskA, 1, 5, Happened),
			does("o", state.Purge, taskA, 0, 7, Happened)}, nil},
		{"a duplicate", []Record{{Event: state.Enqueue, TaskID: taskA, Sent: 1, Answered: 2, Answer: Refused}}, nil},
	} {
		if got := (Transcript{tt.records, tt.end}).Violations(); len(got) > 0 {
			t.Errorf("%s: got faults %q, want none", tt.name, got)
		}
	}
}

func TestBadTranscripts(t *testing.T) {
	enqueued := enq(taskA, 1)
	taken := out("w", taskA, 1, 1, 3, 100)
	done := does("w", state.Complete, taskA, 1, 5, Happened)
	for _, tt := range []struct {
		name    string
		records []Record
		end     []dbq.Task
		want    string // in one of the faults
	}{
		{"overlapping leases", []Record{enqueued, taken, out("v", taskA, 2, 2, 50, 200)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}, "at the same time"},
		{"overlap after an extension", []Record{enqueued, out("w", taskA, 1, 1, 3, 10), extended("w", taskA, 1, 8, 100),
			out("v", taskA, 2, 2, 50, 200)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}, "at the same time"},
		{"the same fence twice", []Record{enqueued, taken, out("v", taskA, 1, 2, 150, 200)},
			[]dbq.Task{is(taskA, state.Processing, 2, 1)}, "twice under fence 1"},
		{"a fence that went back", []Record{enqueued, out("w", taskA, 5, 1, 3, 10), out("v", taskA, 4, 2, 20, 30)},
			[]dbq.Task{is(taskA, state.Processing, 2, 5)}, "before it was under the lower fence 4"},
		{"settled twice under one lease", []Record{enqueued, taken, does("w", state.Fail, taskA, 1, 5, Happened),
			does("w", state.Release, taskA, 1, 7, Happened)},
			[]dbq.Task{is(taskA, state.Created, 0, 1)}, "was settled twice"},
		{"completed under two leases", []Record{enqueued, out("w", taskA, 1, 1, 3, 10), out("v", taskA, 2, 2, 11, 100),
			does("w", state.Complete, taskA, 1, 11, Happened),
			does("v", state.Complete, taskA, 2, 14, Happened)}, []dbq.Task{is(taskA, state.Completed, 2, 2)},
			"was completed 2 times"},
		{"settled by a stale lease", []Record{enqueued, out("w", taskA, 1, 1, 3, 10), out("v", taskA, 2, 2, 11, 100),
			does("w", state.Complete, taskA, 1, 20, Happened)},
			[]dbq.Task{is(taskA, state.Completed, 2, 2)}, "after it had been handed out under fence 2"},
		{"settled after a revoke", []Record{enqueued, taken, does("o", state.Revoke, taskA, 0, 5, Happened),
			does("w", state.Complete, taskA, 1, 9, Happened)},
			[]dbq.Task{is(taskA, state.Completed, 1, 2)}, "after that lease was revoked"},
		{"settled without a lease", []Record{enqueued, does("w", state.Complete, taskA, 7, 5, Happened)},
			[]dbq.Task{is(taskA, state.Completed, 0, 7)}, "which was never given"},
		{"handed out after completion", []Record{enqueued, taken, done, out("v", taskA, 2, 2, 9, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}, "had settled it (complete)"},
		{"handed out after poison", []Record{enqueued, taken, does("w", state.PoisonEvent, taskA, 1, 5, Happened),
			out("v", taskA, 2, 2, 9, 100)},
			[]dbq.Task{is(taskA, state.Processing, 2, 2)}, "had settled it (poison)"},
		{"lost without a reason", []Record{enqueued, taken, does("w", state.Complete, taskA, 1, 5, Lost)},
			[]dbq.Task{is(taskA, state.Processing, 1, 1)}, "though no other worker"},
		{"extension lost without a reason", []Record{enqueued, taken, does("w", state.Extend, taskA, 1, 5, Lost)},
			[]dbq.Task{is(taskA, state.Processing, 1, 1)}, "though no other worker"},
		{"a lost task", []Record{enqueued, taken, enq(taskB, 1)}, []dbq.Task{is(taskA, state.Processing, 1, 1)}, "is lost"},
		{"a task from nowhere", nil, []dbq.Task{is(taskA, state.Created, 0, 0)}, "never enqueued"},
		{"a refused task that is there",
			[]Record{{Event: state.Enqueue, TaskID: taskA, Sent: 1, Answered: 2, Answer: Refused}},
			[]dbq.Task{is(taskA, state.Created, 0, 0)}, "never enqueued"},
		{"twice in the end", []Record{enqueued}, []dbq.Task{is(taskA, state.Created, 0, 0), is(taskA, state.Created, 0, 0)},
			"twice in the end"},
		{"removed and there", []Record{enqueued, taken, removing(done)}, []dbq.Task{is(taskA, state.Completed, 1, 1)},
			"still there"},
		{"completed and not so", []Record{enqueued, taken, done}, []dbq.Task{is(taskA, state.Error, 1, 1)},
			"was completed, and is ERROR"},
		{"completed by nobody", []Record{enqueued, taken}, []dbq.Task{is(taskA, state.Completed, 1, 1)},
			"though it was never completed"},
		{"touched by nobody", []Record{enqueued}, []dbq.Task{is(taskA, state.Error, 0, 0)}, "it was never taken"},
		{"an end that does not follow", []Record{enqueued, taken, does("w", state.Release, taskA, 1, 5, Happened)},
			[]dbq.Task{is(taskA, state.Processing, 0, 1)}, "want one of [CREATED]"},
		{"poison too early", []Record{enqueued, taken}, []dbq.Task{is(taskA, state.Poison, 1, 2)},
			"want one of [PROCESSING]"},
		{"attempts not counted", []Record{enqueued, out("w", taskA, 1, 1, 3, 10), out("v", taskA, 2, 1, 11, 100)},
			[]dbq.Task{is(taskA, state.Processing, 1, 2)}, "as attempt 1, want 2"},
		{"too many attempts in the end", []Record{enqueued, taken}, []dbq.Task{is(taskA, state.Processing, 2, 1)},
			"counts 2 attempts"},
		{"one attempt too many", []Record{enqueued, out("w", taskA, 1, 1, 3, 4), out("w", taskA, 2, 2, 5, 6),
			out("w", taskA, 3, 3, 7, 8), out("w", taskA, 4, 4, 9, 10)},
			[]dbq.Task{is(taskA, state.Processing, 4, 4)}, "attempt 4 of at most 3"},
		{"a fence lost in the end", []Record{enqueued, out("w", taskA, 7, 1, 3, 100)},
			[]dbq.Task{is(taskA, state.Processing, 1, 6)}, "has fence 6 in the end"},
	} {
		got := Transcript{tt.records, tt.end}.Violations()
		if !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, tt.want) }) {
			t.Errorf("%s: got faults %q, want one with %q", tt.name, got, tt.want)
		}
		if again := (Transcript{tt.records, tt.end}).Violations(); !reflect.DeepEqual(got, again) {
			t.Errorf("%s: the same transcript was judged %q and then %q", tt.name, got, again)
		}
	}
}

func TestViolationsAreLimited(t *testing.T) {
	var h Transcript
	for range 100 {
		h.Records = append(h.Records, enq(uuid.New(), 1))
	}
	if got := h.Violations(); len(got) != maxViolations+1 {
		t.Errorf("got %d faults, want %d and a note", len(got), maxViolations)
	}
}

func TestRecordsOfAKilledProcessAreRead(t *testing.T) {
	var file bytes.Buffer
	r := NewWallClockRecorder(&file)
	first := r.begin(Record{Event: state.Checkout})
	r.end(r.split(first[0], 2), func(i int, rec *Record) {
		rec.Answer, rec.TaskID, rec.Fence = Happened, []uuid.UUID{taskA, taskB}[i], 1
	})
	r.begin(Record{Event: state.Complete, TaskID: taskA, Fence: 1})
	whole := file.Len()
	r.end([]int{2}, func(_ int, rec *Record) { rec.Answer = Happened })
	for _, size := range []int{whole, whole + 10} { // killed before the last line, or in it
		got, err := Read(bytes.NewReader(file.Bytes()[:size]))
		if err != nil || len(got) != 3 || got[1].TaskID != taskB || got[2].Answer != Maybe {
			t.Errorf("of %d bytes: got %+v and error %v, want two checkouts and a completion that may have happened", size, got,
				err)
		}
	}
	if got, err := Read(bytes.NewReader(file.Bytes())); err != nil || !reflect.DeepEqual(got, r.Records()) {
		t.Errorf("got %+v and error %v, want what was recorded: %+v", got, err, r.Records())
	}
	if _, err := Read(strings.NewReader("no JSON\n")); err == nil {
		t.Errorf("a transcript that cannot be read: got no error")
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Answer
	}{
		{nil, Happened}, {dbq.ErrLeaseLost, Lost}, {dbq.ErrDuplicate, Refused}, {os.ErrClosed, Refused},
		{fmt.Errorf("%w: %w", dbq.ErrMayHaveHappened, errors.New("cut")), Maybe},
		{fmt.Errorf("%w: %w", dbq.ErrMayHaveHappened, dbq.ErrLeaseLost), Maybe},
	} {
		if got := answerOf(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestClockOfOneProcessIsMonotonic(t *testing.T) {
	r := NewRecorder()
	now := time.Now()
	if got := r.at(now.Add(time.Second)) - r.at(now); got != int64(time.Second) {
		t.Errorf("a second takes %d ns", got)
	}
}
