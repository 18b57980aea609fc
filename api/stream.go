package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
)

const ndjson = "application/x-ndjson"

// Bounds of a batch of lines.
const (
	batchTasks = 1000
	batchBytes = 4 << 20
	batchWait  = 200 * time.Millisecond
)

// StreamLine answers a line of a stream.
type StreamLine struct {
	Line int `json:"line"`
	Enqueued
	Problem *Problem `json:"problem,omitempty"`
}

// stream enqueues the tasks that a body has on its lines, and answers each line. A line that is refused does not
// prevent the others; a failure of the database and Drain end the stream.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	database, queue := r.PathValue("database"), r.PathValue("queue")
	d, _, err := a.open(r.Context(), auth.Enqueue, database, queue)
	if err != nil {
		refuse(w, r, problemOf(err))
		return
	}
	s := &streamer{
		a: a, queue: d.client.Queue(queue), key: r.Header.Get("Idempotency-Key"), r: r,
		control: http.NewResponseController(w), out: json.NewEncoder(w),
	}
	_ = s.control.EnableFullDuplex() // without it, the responses come after the last line
	w.Header().Set("Content-Type", ndjson)
	w.WriteHeader(http.StatusOK)
	s.run(r.Context(), a.lines(r.Context(), s.control, r.Body))
	s.extendWrite()                                                  // for the end of the response
	_ = s.control.SetReadDeadline(time.Now().Add(a.cfg.BodyTimeout)) // of what is left of the body
}

// line is a line of a stream, or the problem that ended it. The last one has neither.
type line struct {
	number  int
	text    []byte
	problem *Problem
}

// lines reads in the background until ctx ends, so that a batch need not wait for a slow caller. It reads one line
// ahead: lines may be large.
func (a *API) lines(ctx context.Context, control *http.ResponseController, body io.Reader) <-chan line {
	out := make(chan line)
	go func() {
		defer close(out)
		s := bufio.NewScanner(slowBody{control, a.cfg.BodyTimeout, body})
		s.Buffer(make([]byte, 0, 64<<10), int(a.cfg.MaxBody))
		n, more := 0, true
		for more {
			n++
			l := line{number: n}
			if more = s.Scan(); more {
				l.text = bytes.Clone(s.Bytes())
			} else if l.problem = streamProblem(s.Err()); l.problem == nil {
				return
			}
			select {
			case out <- l:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// slowBody limits the time that each part of a body may take to arrive.
type slowBody struct {
	control *http.ResponseController
	timeout time.Duration
	body    io.Reader
}

// Read reads a part.
func (s slowBody) Read(b []byte) (int, error) {
	_ = s.control.SetReadDeadline(time.Now().Add(s.timeout)) // not every server has it
	return s.body.Read(b)
}

func streamProblem(err error) *Problem {
	var slow net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return bodyTooLarge.problem()
	case errors.As(err, &slow) && slow.Timeout():
		return bodyTimeout.problem()
	}
	return badBody.problem()
}

// streamer enqueues lines, batch by batch.
type streamer struct {
	a       *API
	queue   *dbq.Queue
	key     string
	r       *http.Request
	control *http.ResponseController
	out     *json.Encoder

	tasks   []dbq.NewTask
	numbers []int
	bytes   int
	unsent  bool // there are answers that were not flushed
}

func (s *streamer) run(ctx context.Context, lines <-chan line) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := 0        // the number of the last line
	waiting := false // the timer will flush what the lines since the last flush left
	for {
		flush, end := false, false
		select {
		case <-ctx.Done():
			return
		case <-s.a.draining.Done():
			if s.flush(ctx) {
				s.answer(StreamLine{Line: last + 1, Problem: problemOf(dbq.ErrClosed)})
			}
			return
		case <-timer.C:
			flush = true
		case l, ok := <-lines:
			last = l.number
			switch {
			case !ok:
				flush, end = true, true
			case l.problem != nil:
				if !s.flush(ctx) {
					return
				}
				s.answer(StreamLine{Line: l.number, Problem: l.problem})
				return
			default:
				s.add(l)
				if some := len(s.tasks) > 0 || s.unsent; some && !waiting { // later lines do not put it off
					timer.Reset(batchWait)
					waiting = true
				}
				flush = len(s.tasks) >= batchTasks || s.bytes >= batchBytes
			}
		}
		if flush {
			waiting = false
		}
		if flush && !s.flush(ctx) || end {
			return
		}
	}
}

// add adds a line to the batch, or refuses it.
func (s *streamer) add(l line) {
	if len(bytes.TrimSpace(l.text)) == 0 {
		return
	}
	t, p := parseLine(l.text)
	if p == nil && s.key != "" {
		p = setReference(&t, fmt.Sprintf("%s/%d", s.key, l.number))
	}
	if p != nil {
		s.answer(StreamLine{Line: l.number, Problem: p})
		return
	}
	s.tasks, s.numbers = append(s.tasks, t), append(s.numbers, l.number)
	s.bytes += len(l.text)
}

// parseLine reads a task.
func parseLine(text []byte) (dbq.NewTask, *Problem) {
	if !isText(text) {
		return dbq.NewTask{}, badJSON.problem()
	}
	var t NewTask
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		if !json.Valid(text) {
			return dbq.NewTask{}, badJSON.problem()
		}
		return dbq.NewTask{}, badRequest.problem(Field{"body", "a field is unknown or has the wrong type"})
	}
	if _, err := dec.Token(); err != io.EOF {
		return dbq.NewTask{}, badJSON.problem()
	}
	return t.task()
}

// flush enqueues the batch. It reports whether the stream can continue.
func (s *streamer) flush(ctx context.Context) bool {
	tasks, numbers := s.tasks, s.numbers
	s.tasks, s.numbers, s.bytes = nil, nil, 0
	if len(tasks) == 0 {
		return !s.unsent || s.send()
	}
	ctx, cancel := context.WithTimeout(ctx, s.a.cfg.Timeout)
	defer cancel()
	out, err := s.queue.EnqueueMany(ctx, tasks)
	if isRefused(err) && len(tasks) > 1 { // none was enqueued: find the tasks that are refused
		for i := range tasks {
			if !s.enqueue(ctx, tasks[i], numbers[i]) {
				return false
			}
		}
		return s.send()
	}
	if err != nil {
		s.fail(ctx, numbers[0], err)
		return isRefused(err)
	}
	for i, e := range out {
		s.answer(StreamLine{Line: numbers[i], Enqueued: enqueued(e)})
	}
	return s.send()
}

// enqueue enqueues one task of a batch that was refused.
func (s *streamer) enqueue(ctx context.Context, t dbq.NewTask, number int) bool {
	out, err := s.queue.EnqueueMany(ctx, []dbq.NewTask{t})
	if err != nil {
		s.fail(ctx, number, err)
		return isRefused(err)
	}
	s.answer(StreamLine{Line: number, Enqueued: enqueued(out[0])})
	return true
}

// fail answers a line with an error. If the database failed, this line and those after it have no other response.
func (s *streamer) fail(ctx context.Context, number int, err error) {
	p := problemOf(err)
	s.a.logFailure(ctx, p, err)
	p.Errors = nil
	s.answer(StreamLine{Line: number, Problem: p})
	s.send()
}

func (s *streamer) answer(l StreamLine) {
	if l.Problem != nil {
		l.Problem.RequestID = requestID(s.r.Context())
	}
	s.extendWrite()
	s.unsent = true
	_ = s.out.Encode(l) // the caller may be gone; ctx ends then
}

// send sends the answers, and reports whether the stream can continue.
func (s *streamer) send() bool {
	s.extendWrite()
	s.unsent = false
	return s.control.Flush() == nil
}

// extendWrite lets the caller take its time for what is written now. The deadline of the server, and that of earlier
// answers, may have passed since then.
func (s *streamer) extendWrite() {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.a.cfg.Timeout + s.a.cfg.BodyTimeout)) // not every server has it
}
