package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// outcome is what a call said about one task.
type outcome string

const (
	happened outcome = "happened"
	lost     outcome = "lost"    // ErrLeaseLost: it did not happen, since the lease is not valid any more
	refused  outcome = "refused" // any other error: it did not happen
	maybe    outcome = "maybe"   // ErrMayHaveHappened, or the process died before the answer came
)

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return happened
	case errors.Is(err, dbq.ErrMayHaveHappened):
		return maybe
	case errors.Is(err, dbq.ErrLeaseLost):
		return lost
	}
	return refused
}

// record is one call about one task, as its caller saw it. What it did was done at some moment between Sent and Answered.
type record struct {
	Seq      int         `json:"seq"`
	Worker   string      `json:"worker"`
	Event    state.Event `json:"event"`
	Task     uuid.UUID   `json:"task"` // zero: a call that may have concerned any task
	Fence    int64       `json:"fence,omitempty"`
	Attempt  int         `json:"attempt,omitempty"` // of a checkout
	Remove   bool        `json:"remove,omitempty"`  // a completion that removes
	Sent     int64       `json:"sent"`              // nanoseconds; see recorder.at
	Answered int64       `json:"answered,omitempty"`
	Until    int64       `json:"until,omitempty"` // of a checkout and an extension: the holder's own estimate
	Outcome  outcome     `json:"outcome"`
}

// recorder collects records of several workers. Each call is written down before it is sent, as maybe, and again when its
// answer is there: a process that is killed in between leaves a call that may have happened.
type recorder struct {
	// at is the clock. Within one process it is monotonic. Histories of several processes of one machine are compared by its
	// wall clock, the same for all of them, since Go shows no monotonic one that they share.
	at func(time.Time) int64

	mu      sync.Mutex
	records []record
	file    io.Writer // of a child process: each change as a line; nil keeps them in memory only
}

func newRecorder() *recorder {
	base := time.Now()
	return &recorder{at: func(t time.Time) int64 { return base.UnixNano() + int64(t.Sub(base)) }}
}

func newWallRecorder(file io.Writer) *recorder {
	return &recorder{at: time.Time.UnixNano, file: file}
}

// begin notes calls that are about to be sent and returns where their answers go.
func (r *recorder) begin(rs ...record) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	seqs := make([]int, len(rs))
	now := r.at(time.Now())
	for i, rec := range rs {
		rec.Seq, rec.Sent, rec.Outcome = len(r.records), now, maybe
		r.records = append(r.records, rec)
		seqs[i] = rec.Seq
	}
	r.write(seqs)
	return seqs
}

// end notes the answers to calls; edit fills in each.
func (r *recorder) end(seqs []int, edit func(i int, rec *record)) {
	now := r.at(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, seq := range seqs {
		r.records[seq].Answered = now
		edit(i, &r.records[seq])
	}
	r.write(seqs)
}

// split makes a call about unknown tasks one record for each of n tasks.
func (r *recorder) split(seq, n int) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	seqs := []int{seq}
	for len(seqs) < n {
		rec := r.records[seq]
		rec.Seq = len(r.records)
		r.records = append(r.records, rec)
		seqs = append(seqs, rec.Seq)
	}
	return seqs
}

// write appends the records to the file in one system call, so that a kill does not leave half of a batch.
func (r *recorder) write(seqs []int) {
	if r.file == nil {
		return
	}
	var b bytes.Buffer
	for _, seq := range seqs {
		line, err := json.Marshal(r.records[seq])
		if err != nil {
			panic(err) // plain data
		}
		b.Write(append(line, '\n'))
	}
	if _, err := r.file.Write(b.Bytes()); err != nil {
		panic(fmt.Errorf("writing the history: %w", err)) // a history with holes would accuse the innocent
	}
}

// all is a copy of what was recorded.
func (r *recorder) all() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]record(nil), r.records...)
}

// readRecords reads what a process wrote; of each call the last line counts. A last line without an end is left out: the
// process was killed while it wrote it, and the line before says maybe.
func readRecords(file io.Reader) ([]record, error) {
	var out []record
	index := map[int]int{}
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			return out, fmt.Errorf("line %d of a history: %w", len(out)+1, err)
		}
		if i, known := index[rec.Seq]; known {
			out[i] = rec
			continue
		}
		index[rec.Seq] = len(out)
		out = append(out, rec)
	}
}

// witness is a queue whose every call is recorded under a worker's name.
type witness struct {
	rec  *recorder
	name string
	q    *dbq.Queue
}

// enqueue gives the tasks ids of their own first, so that also a call without an answer is known by its tasks.
func (w *witness) enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	begun := make([]record, len(ts))
	for i := range ts {
		if ts[i].ID == uuid.Nil {
			ts[i].ID = dbq.NewID()
		}
		begun[i] = record{Worker: w.name, Event: state.Enqueue, Task: ts[i].ID}
	}
	seqs := w.rec.begin(begun...)
	out, err := w.q.EnqueueMany(ctx, ts)
	w.rec.end(seqs, func(i int, r *record) {
		r.Outcome = outcomeOf(err)
		if err == nil && out[i].Duplicate {
			r.Outcome = refused
		}
	})
	return out, err
}

func (w *witness) checkout(ctx context.Context, n int, lease time.Duration) ([]dbq.Task, error) {
	seqs := w.rec.begin(record{Worker: w.name, Event: state.Checkout})
	ts, err := w.q.Checkout(ctx, n, lease)
	seqs = w.rec.split(seqs[0], len(ts))
	w.rec.end(seqs, func(i int, r *record) {
		if len(ts) == 0 {
			r.Outcome = outcomeOf(err)
			if err == nil {
				r.Outcome = refused // nothing was there
			}
			return
		}
		r.Outcome, r.Task, r.Fence, r.Attempt = happened, ts[i].ID, ts[i].Lease.Fence, ts[i].Attempt
		r.Until = w.rec.at(ts[i].Lease.Until)
	})
	return ts, err
}

func (w *witness) extend(ctx context.Context, ls []dbq.Lease, d time.Duration) (renewed, gone []dbq.Lease, err error) {
	begun := make([]record, len(ls))
	for i, l := range ls {
		begun[i] = record{Worker: w.name, Event: state.Extend, Task: l.Task, Fence: l.Fence}
	}
	seqs := w.rec.begin(begun...)
	renewed, gone, err = w.q.ExtendMany(ctx, ls, d)
	until := map[uuid.UUID]int64{}
	for _, l := range renewed {
		until[l.Task] = w.rec.at(l.Until)
	}
	w.rec.end(seqs, func(i int, r *record) {
		r.Outcome = outcomeOf(err)
		if err != nil {
			return
		}
		if r.Until = until[r.Task]; r.Until == 0 {
			r.Outcome = lost
		}
	})
	return renewed, gone, err
}

// settle ends attempts; remove says that all of them are CompletedAndDeleted. What others had locked it settles again.
func (w *witness) settle(ctx context.Context, remove bool, ss ...dbq.Settlement) ([]dbq.Settled, error) {
	begun := make([]record, len(ss))
	for i, s := range ss {
		begun[i] = record{Worker: w.name, Event: s.Event(), Remove: remove, Task: s.Lease.Task, Fence: s.Lease.Fence}
	}
	seqs := w.rec.begin(begun...)
	out, err := settleEach(ctx, w.q, ss)
	w.rec.end(seqs, func(i int, r *record) {
		if r.Outcome = outcomeOf(err); err == nil {
			r.Outcome = outcomeOf(out[i].Err)
		}
	})
	return out, err
}

func (w *witness) operate(ctx context.Context, e state.Event, id uuid.UUID) error {
	seqs := w.rec.begin(record{Worker: w.name, Event: e, Task: id})
	err := w.q.Client().Operate(ctx, dbq.Operation{Event: e}, id)
	w.rec.end(seqs, func(_ int, r *record) { r.Outcome = outcomeOf(err) })
	return err
}

// operateMany is recorded as a call about unknown tasks, since it does not say which it changed.
func (w *witness) operateMany(ctx context.Context, e state.Event, f dbq.Filter) (int, error) {
	seqs := w.rec.begin(record{Worker: w.name, Event: e})
	n, err := w.q.Client().OperateMany(ctx, dbq.Operation{Event: e}, f)
	w.rec.end(seqs, func(_ int, r *record) {
		r.Outcome = maybe
		if n == 0 && err == nil {
			r.Outcome = refused // it changed none
		}
	})
	return n, err
}
