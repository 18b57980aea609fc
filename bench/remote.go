package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// remote is a worker process: another one of this program, or Node.js. Requests and replies are lines of JSON on its
// standard input and output; a reply has its request's id. Other lines report how many tasks were handled so far.
type remote struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	mu      sync.Mutex
	waiting map[int]chan reply
	next    int
	handled func(more int)                 // tasks were handled
	started func(number int, at time.Time) // with request.Trace
	ended   chan struct{}                  // the process is gone
	cpu     time.Duration                  // that its last Work took
}

// request asks a process to attach, prepare, enqueue, work or stop.
type request struct {
	ID        int         `json:"id"`
	Op        string      `json:"op"`
	From      int         `json:"from"`
	To        int         `json:"to"`
	Batch     int         `json:"batch"`
	Key       string      `json:"key,omitempty"` // of the contender
	DSNs      *serverDSNs `json:"dsns,omitempty"`
	DSN       string      `json:"dsn,omitempty"`
	Schema    string      `json:"schema,omitempty"`
	Directory string      `json:"directory,omitempty"`
	Trace     bool        `json:"trace,omitempty"` // of work: tell when each task was started
}

type reply struct {
	ID      int    `json:"id"` // 0: the line reports Handled
	Error   string `json:"error,omitempty"`
	Handled int    `json:"handled,omitempty"`
	Number  int    `json:"number,omitempty"`  // of a trace: the task
	At      int64  `json:"at,omitempty"`      // of a trace: when it was started, in microseconds since 1970
	End     int64  `json:"end,omitempty"`     // of stop: when the last completion was stored, in milliseconds since 1970
	CPU     int64  `json:"cpu,omitempty"`     // of stop: microseconds that it used while it worked
	Numbers []int  `json:"numbers,omitempty"` // of stop: the tasks that were handled, each as often as it was
}

// stopTimeout is how long a process may take to end after its input has ended.
const stopTimeout = 10 * time.Second

func startRemote(cmd *exec.Cmd) (*remote, error) {
	r := &remote{
		cmd: cmd, waiting: map[int]chan reply{}, ended: make(chan struct{}),
		handled: func(int) {}, started: func(int, time.Time) {},
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.in = in
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go r.read(out)
	return r, nil
}

func (r *remote) read(out io.Reader) {
	defer close(r.ended)
	lines := bufio.NewReaderSize(out, 1<<20)
	told := 0
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a reply
		if err := json.Unmarshal(line, &a); err != nil {
			fmt.Fprintf(os.Stderr, "bench: a process said: %s", line)
			continue
		}
		r.mu.Lock()
		to, more := r.waiting[a.ID], a.Handled-told
		delete(r.waiting, a.ID)
		handled, started := r.handled, r.started
		r.mu.Unlock()
		if a.ID != 0 {
			if a.Numbers != nil {
				told = 0 // the next Work counts from the beginning
			}
			if to != nil {
				to <- a
			}
			continue
		}
		told = a.Handled
		handled(more)
		if a.At != 0 {
			started(a.Number, time.UnixMicro(a.At))
		}
	}
}

// call sends a request and waits for its reply.
func (r *remote) call(ctx context.Context, q request) (reply, error) {
	answer := make(chan reply, 1)
	r.mu.Lock()
	r.next++
	q.ID = r.next
	r.waiting[q.ID] = answer
	line, err := json.Marshal(q)
	if err == nil {
		_, err = r.in.Write(append(line, '\n'))
	}
	r.mu.Unlock()
	if err != nil {
		return reply{}, err
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return a, fmt.Errorf("%s: %s", q.Op, a.Error)
		}
		return a, nil
	case <-r.ended:
		return reply{}, fmt.Errorf("%s: the process has ended", q.Op)
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%s: %w", q.Op, ctx.Err())
	}
}

// onHandled sets the function that is called when tasks were handled.
func (r *remote) onHandled(f func(more int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled = f
}

// onStarted sets the function that is called when a task was started.
func (r *remote) onStarted(f func(number int, at time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = f
}

// close ends the process.
func (r *remote) close() error {
	_ = r.in.Close() // it ends when its input does
	select {
	case <-r.ended:
	case <-time.After(stopTimeout):
		_ = r.cmd.Process.Kill()
	}
	var exit *exec.ExitError
	if err := r.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// drainRemotes runs processes until n tasks are handled, and enters the tasks into the ledger.
func drainRemotes(ctx context.Context, all []*remote, n int, done *ledger) (time.Duration, error) {
	var mu sync.Mutex
	total, finished := 0, make(chan struct{})
	for _, r := range all {
		r.onHandled(func(more int) {
			mu.Lock()
			defer mu.Unlock()
			before := total
			if total += more; before < n && total >= n {
				close(finished)
			}
		})
	}
	start := time.Now()
	for _, r := range all {
		if _, err := r.call(ctx, request{Op: "work"}); err != nil {
			return 0, err
		}
	}
	for _, r := range all {
		select {
		case <-finished:
		case <-r.ended:
			return 0, errors.New("a process has ended while it worked")
		case <-ctx.Done():
			mu.Lock()
			defer mu.Unlock()
			return 0, fmt.Errorf("%d of %d tasks were handled: %w", total, n, ctx.Err())
		}
	}
	var group sync.WaitGroup // they stop at the same time: one that went on would take what is left
	replies, errs := make([]reply, len(all)), make([]error, len(all))
	for i, r := range all {
		group.Go(func() { replies[i], errs[i] = r.call(ctx, request{Op: "stop"}) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	end := start
	for i, a := range replies {
		all[i].cpu = time.Duration(a.CPU) * time.Microsecond
		if at := time.UnixMilli(a.End); at.After(end) {
			end = at
		}
		for _, number := range a.Numbers {
			done.enter(number)
		}
	}
	return end.Sub(start), nil
}
