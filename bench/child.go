package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// childFlag, alone on the command line, makes this program a worker process of another run of it.
const childFlag = "-child"

// An attacher works on tables that another process has prepared.
type attacher interface {
	runner
	Attach(ctx context.Context) error
	Detach() error
}

// tellEvery is how often a process reports how many tasks it has handled.
const tellEvery = 2 * time.Millisecond

// spawn starts a process for a contender, with its tables open.
func spawn(ctx context.Context, s *servers, e *entry) (*remote, error) {
	if n, ok := e.contender.(*nodeQueue); ok {
		return n.spawn(ctx)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, err := startRemote(exec.Command(program, childFlag))
	if err != nil {
		return nil, err
	}
	attach := request{Op: "attach", Key: e.key(), DSNs: &s.dsns, Schema: s.schema, Directory: s.directory}
	if _, err := r.call(ctx, attach); err != nil {
		_ = r.close() // the first error is the one to report
		return nil, err
	}
	return r, nil
}

// child answers requests until its input ends.
func child(ctx context.Context) error {
	var out sync.Mutex
	answer := func(a reply) {
		out.Lock()
		defer out.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(a) // there is nowhere to report an error
	}
	w := workplace{answer: answer}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q request
		err := json.Unmarshal(lines.Bytes(), &q)
		a := reply{ID: q.ID}
		if err == nil {
			switch q.Op {
			case "attach":
				err = w.attach(ctx, q)
			case "work":
				w.work(ctx)
			case "stop":
				err = w.finish(&a)
			default:
				err = fmt.Errorf("unknown request %q", q.Op)
			}
		}
		if err != nil {
			a.Error = err.Error()
		}
		answer(a)
	}
	if w.contender != nil {
		return w.contender.Detach()
	}
	return lines.Err()
}

// workplace is the state of a child: its contender and what it has handled.
type workplace struct {
	answer    func(reply)
	contender attacher
	stop      chan struct{}
	done      chan error
	mu        sync.Mutex
	numbers   []int
	end       time.Time
	cpu       time.Duration
}

func (w *workplace) attach(ctx context.Context, q request) error {
	if q.DSNs == nil {
		return fmt.Errorf("attach without DSNs")
	}
	s := &servers{dsns: *q.DSNs, schema: q.Schema, directory: q.Directory}
	// Only the contender itself connects to its server.
	if q.DSNs.Postgres != "" {
		s.pg = &pgPlace{dsn: q.DSNs.Postgres, schema: q.Schema}
	}
	if q.DSNs.MySQL != "" {
		s.mysqls = append(s.mysqls, &mysqlPlace{group: mysqlDB, dsn: q.DSNs.MySQL, schema: q.Schema})
	}
	if q.DSNs.MariaDB != "" {
		s.mysqls = append(s.mysqls, &mysqlPlace{group: mariaDB, dsn: q.DSNs.MariaDB, schema: q.Schema})
	}
	for _, e := range s.entries() {
		if a, ok := e.contender.(attacher); ok && e.key() == q.Key {
			w.contender = a
			return a.Attach(ctx)
		}
	}
	return fmt.Errorf("no contender %q for several processes", q.Key)
}

func (w *workplace) work(ctx context.Context) {
	w.stop, w.done, w.numbers = make(chan struct{}), make(chan error, 1), []int{}
	told := make(chan struct{})
	before := cpuTime()
	go func() {
		end, err := w.contender.Work(ctx, w.stop, func(number int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.numbers = append(w.numbers, number)
		})
		w.end, w.cpu = end, cpuTime()-before
		close(told)
		w.done <- err
	}()
	go func() {
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for last := 0; ; {
			select {
			case <-tick.C:
			case <-told:
				return
			}
			w.mu.Lock()
			n := len(w.numbers)
			w.mu.Unlock()
			if n != last {
				w.answer(reply{Handled: n})
				last = n
			}
		}
	}()
}

func (w *workplace) finish(a *reply) error {
	close(w.stop)
	err := <-w.done
	a.End, a.CPU, a.Numbers = w.end.UnixMilli(), w.cpu.Microseconds(), w.numbers
	return err
}
