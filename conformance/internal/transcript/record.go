// Package transcript records the calls that many workers make on queues, and checks afterwards whether the answers can
// be true: no task held twice at a time, none lost, none completed twice, and so on.
package transcript

import (
	"bufio"
	"bytes"
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

// An Answer is a call's report about one task.
type Answer string

// The answers.
const (
	Happened Answer = "happened"
	Lost     Answer = "lost"    // ErrLeaseLost: it did not happen, since the lease is not valid any more
	Refused  Answer = "refused" // any other error: it did not happen
	Maybe    Answer = "maybe"   // ErrMayHaveHappened, or the process died before the answer came
)

// answerOf is the answer that an error stands for.
func answerOf(err error) Answer {
	switch {
	case err == nil:
		return Happened
	case errors.Is(err, dbq.ErrMayHaveHappened):
		return Maybe
	case errors.Is(err, dbq.ErrLeaseLost):
		return Lost
	}
	return Refused
}

// A Record is one call about one task, as its caller saw it. The call took effect at some moment between Sent and
// Answered.
type Record struct {
	Seq      int         `json:"seq"`
	Worker   string      `json:"worker"`
	Event    state.Event `json:"event"`
	TaskID   uuid.UUID   `json:"task_id"` // zero: a call that may have concerned any task
	Fence    int64       `json:"fence,omitempty"`
	Attempt  int         `json:"attempt,omitempty"` // of a checkout
	Remove   bool        `json:"remove,omitempty"`  // a completion that removes
	Sent     int64       `json:"sent"`              // nanoseconds; see Recorder.at
	Answered int64       `json:"answered,omitempty"`
	Until    int64       `json:"until,omitempty"` // of a checkout and an extension: the holder's own estimate
	Answer   Answer      `json:"answer"`
}

// A Recorder collects the records of several callers. Each call is recorded before it is sent, as Maybe, and again when
// its answer arrives: a process that is killed in between leaves a call that may have happened. Its methods may be
// called from several goroutines.
type Recorder struct {
	// at is the clock. Within one process it is monotonic. Records of several processes on one machine are compared by
	// the wall clock, since Go offers no monotonic clock that processes share.
	at func(time.Time) int64

	mu      sync.Mutex
	records []Record
	file    io.Writer // of a worker process: each change as a line; nil keeps them in memory only
}

// NewRecorder returns a recorder for the callers of one process. Its clock is monotonic.
func NewRecorder() *Recorder {
	base := time.Now()
	return &Recorder{at: func(t time.Time) int64 { return base.UnixNano() + int64(t.Sub(base)) }}
}

// NewWallClockRecorder returns a recorder whose records can be compared with the records of other processes on this
// machine. It also appends each record to file, unless file is nil.
func NewWallClockRecorder(file io.Writer) *Recorder {
	return &Recorder{at: time.Time.UnixNano, file: file}
}

// begin records calls that are about to be sent, and returns their sequence numbers for end.
func (r *Recorder) begin(rs ...Record) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	seqs := make([]int, len(rs))
	now := r.at(time.Now())
	for i, rec := range rs {
		rec.Seq, rec.Sent, rec.Answer = len(r.records), now, Maybe
		r.records = append(r.records, rec)
		seqs[i] = rec.Seq
	}
	r.write(seqs)
	return seqs
}

// end records the answers to calls; edit fills in each.
func (r *Recorder) end(seqs []int, edit func(i int, rec *Record)) {
	now := r.at(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, seq := range seqs {
		r.records[seq].Answered = now
		edit(i, &r.records[seq])
	}
	r.write(seqs)
}

// split turns the record of a call about unknown tasks into one record for each of n tasks.
func (r *Recorder) split(seq, n int) []int {
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
func (r *Recorder) write(seqs []int) {
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
		panic(fmt.Errorf("writing the transcript: %w", err)) // an incomplete transcript would report violations that are none
	}
}

// Records returns a copy of the records.
func (r *Recorder) Records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Record(nil), r.records...)
}

// Read returns the records that a process wrote. The last line about a call counts. An unfinished last line is left
// out: the process was killed while it wrote it, and the line before it says Maybe.
func Read(file io.Reader) ([]Record, error) {
	var out []Record
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
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return out, fmt.Errorf("line %d of a transcript: %w", len(out)+1, err)
		}
		if i, known := index[rec.Seq]; known {
			out[i] = rec
			continue
		}
		index[rec.Seq] = len(out)
		out = append(out, rec)
	}
}
