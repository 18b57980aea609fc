package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// Bounds of a batch of lines: its tasks, its bytes, and how long its first line waits for more when the input is slow.
const (
	batchTasks = 1000
	batchBytes = 4 << 20
	batchWait  = 200 * time.Millisecond
)

// maxLine bounds a line. It is what the largest payload takes in base64, and a little.
const maxLine = 150 << 20

// inputLine is a line of the input, or the error that ended it.
type inputLine struct {
	number int
	text   []byte
	err    error
}

// readLines reads in the background, so that a batch need not wait for a slow input. It ends with a line whose err is io.EOF
// or what went wrong.
func readLines(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine, batchTasks)
	send := func(l inputLine) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		s := bufio.NewScanner(in)
		s.Buffer(make([]byte, 0, 64<<10), maxLine)
		n := 0
		for s.Scan() {
			n++
			if !send(inputLine{number: n, text: bytes.Clone(s.Bytes())}) {
				return
			}
		}
		end := inputLine{number: n + 1, err: s.Err()}
		if errors.Is(end.err, bufio.ErrTooLong) {
			end.err = usagef("line %d is longer than %d MiB", end.number, maxLine>>20)
		} else if end.err == nil {
			end.err = io.EOF
		}
		send(end)
	}()
	return lines
}

// lineEnqueuer puts lines on their queues, batch by batch.
type lineEnqueuer struct {
	a     *app
	c     *dbq.Client
	flags taskLine

	queues  []string // of the batch, in the order they came up
	batch   map[string][]numbered
	waiting int
	bytes   int

	added, duplicates int
	show              *progress
}

// numbered is a task and the line it came from.
type numbered struct {
	line int
	task dbq.NewTask
}

func (a *app) enqueueLines(ctx context.Context, f enqueueFlags) error {
	in := a.in
	if f.file != "" && f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return usagef("cannot read the lines: %w", err)
		}
		defer file.Close()
		in = file
	}
	c, err := a.openOrMake(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	e := &lineEnqueuer{a: a, c: c, flags: f.line, batch: map[string][]numbered{}, show: newProgress(a.err)}
	start := time.Now()
	err = e.run(ctx, readLines(ctx, in))
	e.show.end()
	done := plural(e.added, "task") + " enqueued"
	if e.duplicates > 0 {
		done += fmt.Sprintf(", %d there already", e.duplicates)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return &interrupted{done}
	}
	if err != nil {
		return fmt.Errorf("%w; until then: %s", err, done)
	}
	done += fmt.Sprintf(" in %v", time.Since(start).Round(time.Millisecond))
	if a.json { // stdout is for the answers
		a.note("%s", done)
		return nil
	}
	return a.say("%s", done)
}

func (e *lineEnqueuer) run(ctx context.Context, lines <-chan inputLine) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if err := e.flush(ctx); err != nil {
				return err
			}
		case l := <-lines:
			if l.err != nil {
				if err := e.flush(ctx); err != nil || l.err == io.EOF {
					return err
				}
				return l.err
			}
			if len(bytes.TrimSpace(l.text)) == 0 {
				continue
			}
			queue, t, err := parseTaskLine(l.text, e.flags)
			if err != nil {
				if err2 := e.flush(ctx); err2 != nil {
					return err2
				}
				return fmt.Errorf("line %d: %w", l.number, err)
			}
			if e.waiting == 0 {
				timer.Reset(batchWait)
			}
			e.add(queue, numbered{l.number, t})
			if e.waiting >= batchTasks || e.bytes >= batchBytes {
				if err := e.flush(ctx); err != nil {
					return err
				}
			}
		}
	}
}

func (e *lineEnqueuer) add(queue string, n numbered) {
	if n.task.ID == uuid.Nil {
		n.task.ID = dbq.NewID()
	}
	if _, known := e.batch[queue]; !known {
		e.queues = append(e.queues, queue)
	}
	e.batch[queue] = append(e.batch[queue], n)
	e.waiting++
	e.bytes += len(n.task.Payload)
}

// flush enqueues what waits.
func (e *lineEnqueuer) flush(ctx context.Context) error {
	for _, queue := range e.queues {
		batch := e.batch[queue]
		err := e.enqueue(ctx, queue, batch)
		if errors.Is(err, dbq.ErrInvalid) && len(batch) > 1 { // nothing happened: find the one that is to blame
			err = nil
			for i := 0; i < len(batch) && err == nil; i++ {
				err = e.enqueue(ctx, queue, batch[i:i+1])
			}
		}
		if err != nil {
			return err
		}
	}
	clear(e.batch)
	e.queues, e.waiting, e.bytes = nil, 0, 0
	e.show.update("%s enqueued", plural(e.added+e.duplicates, "task"))
	return nil
}

func (e *lineEnqueuer) enqueue(ctx context.Context, queue string, batch []numbered) error {
	tasks := make([]dbq.NewTask, len(batch))
	for i, n := range batch {
		tasks[i] = n.task
	}
	out, err := e.c.Queue(queue).EnqueueMany(ctx, tasks)
	if err != nil {
		first, last := batch[0].line, batch[len(batch)-1].line
		if first == last {
			return fmt.Errorf("line %d: %w", first, err)
		}
		return fmt.Errorf("lines %d to %d: %w", first, last, err)
	}
	for i, o := range out {
		if o.Duplicate {
			e.duplicates++
		} else {
			e.added++
		}
		if e.a.json {
			if err := e.a.printJSON(lineAnswer{batch[i].line, o.ID, o.Duplicate}); err != nil {
				return err
			}
		}
	}
	return nil
}

type lineAnswer struct {
	Line      int       `json:"line"`
	ID        uuid.UUID `json:"id"`
	Duplicate bool      `json:"duplicate"`
}
