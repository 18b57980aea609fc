package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
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

// maxLine limits a line: a little more than the largest payload in base64.
const maxLine = 150 << 20

// inputLine is a line of the input, or the error that ended it, which is io.EOF at the end.
type inputLine struct {
	number int
	text   []byte
	err    error
}

// readLines reads in the background until ctx ends, so that a batch need not wait for a slow input.
func readLines(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine, batchTasks)
	go func() {
		s := bufio.NewScanner(in)
		s.Buffer(make([]byte, 0, 64<<10), maxLine)
		for n := 1; ; n++ {
			l := inputLine{number: n, err: io.EOF}
			if s.Scan() {
				l.text, l.err = bytes.Clone(s.Bytes()), nil
			} else if errors.Is(s.Err(), bufio.ErrTooLong) {
				l.err = usagef("line %d is longer than %d MiB", n, maxLine>>20)
			} else if s.Err() != nil {
				l.err = s.Err()
			}
			select {
			case lines <- l:
			case <-ctx.Done():
				return
			}
			if l.err != nil {
				return
			}
		}
	}()
	return lines
}

// lineEnqueuer enqueues lines, batch by batch.
type lineEnqueuer struct {
	a     *app
	c     *dbq.Client
	flags taskLine
	show  *progress

	batch []numbered
	bytes int // of the payloads in the batch

	added, duplicates, replaced, debounced int
}

// numbered is a task and the line it came from.
type numbered struct {
	line  int
	queue string
	task  dbq.NewTask
}

func (a *app) enqueueLines(ctx context.Context, f enqueueFlags) error {
	in := a.in
	if f.file != "" && f.file != "-" {
		file, err := os.Open(a.path(f.file))
		if err != nil {
			return usagef("cannot read --file: %w", unnamed(err))
		}
		defer file.Close()
		in = file
	}
	return a.use(ctx, true, func(c *dbq.Client) error {
		e := &lineEnqueuer{a: a, c: c, flags: f.line, show: newProgress(a.err)}
		start := time.Now()
		err := e.run(ctx, readLines(ctx, in))
		e.show.end()
		done := plural(e.added, "task") + " enqueued"
		for _, count := range []struct {
			n    int
			what string
		}{{e.duplicates, "already there"}, {e.replaced, "replaced"}, {e.debounced, "debounced"}} {
			if count.n > 0 {
				done += fmt.Sprintf(", %d %s", count.n, count.what)
			}
		}
		switch {
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
			return &interrupted{done}
		case err != nil:
			return fmt.Errorf("%w; until then: %s", err, done)
		}
		done += fmt.Sprintf(" in %v", time.Since(start).Round(time.Millisecond))
		if a.json { // stdout is for the answers
			a.note("%s", done)
		}
		return a.result(nil, "%s", done)
	})
}

// run enqueues the lines. When one is refused, those before it are enqueued.
func (e *lineEnqueuer) run(ctx context.Context, lines <-chan inputLine) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		full := true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case l := <-lines:
			if err := e.add(l); err != nil {
				if flushed := e.flush(ctx); flushed != nil || err == io.EOF {
					return flushed
				}
				return err
			}
			if len(e.batch) == 1 {
				timer.Reset(batchWait)
			}
			full = len(e.batch) >= batchTasks || e.bytes >= batchBytes
		}
		if full {
			if err := e.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// add adds a line to the batch.
func (e *lineEnqueuer) add(l inputLine) error {
	if l.err != nil || len(bytes.TrimSpace(l.text)) == 0 {
		return l.err
	}
	queue, t, err := parseTaskLine(l.text, e.flags)
	if err != nil {
		return fmt.Errorf("line %d: %w", l.number, err)
	}
	if t.ID == uuid.Nil {
		t.ID = dbq.NewID()
	}
	e.batch = append(e.batch, numbered{l.number, queue, t})
	e.bytes += len(t.Payload)
	return nil
}

// flush enqueues the batch, queue by queue.
func (e *lineEnqueuer) flush(ctx context.Context) error {
	slices.SortStableFunc(e.batch, func(a, b numbered) int { return strings.Compare(a.queue, b.queue) })
	for len(e.batch) > 0 {
		end := slices.IndexFunc(e.batch, func(n numbered) bool { return n.queue != e.batch[0].queue })
		if end < 0 {
			end = len(e.batch)
		}
		err := e.enqueue(ctx, e.batch[:end])
		if errors.Is(err, dbq.ErrInvalid) { // none of these was enqueued: find the line to blame
			err, end = e.enqueueEach(ctx), len(e.batch)
		}
		if err != nil {
			return err
		}
		e.batch = e.batch[end:]
	}
	e.batch, e.bytes = nil, 0
	e.show.update("%s enqueued", plural(e.added+e.duplicates+e.replaced+e.debounced, "task"))
	return nil
}

// enqueueEach enqueues the rest of the batch one by one, in the order of the input.
func (e *lineEnqueuer) enqueueEach(ctx context.Context) error {
	slices.SortFunc(e.batch, func(a, b numbered) int { return a.line - b.line })
	for i := range e.batch {
		if err := e.enqueue(ctx, e.batch[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// enqueue enqueues tasks of one queue.
func (e *lineEnqueuer) enqueue(ctx context.Context, part []numbered) error {
	tasks := make([]dbq.NewTask, len(part))
	for i, n := range part {
		tasks[i] = n.task
	}
	first, last := part[0].line, part[len(part)-1].line
	out, err := e.c.Queue(part[0].queue).EnqueueMany(ctx, tasks)
	switch {
	case err != nil && first == last:
		return fmt.Errorf("line %d: %w", first, err)
	case err != nil:
		return fmt.Errorf("lines %d to %d: %w", first, last, err)
	}
	for i, o := range out {
		switch {
		case o.Duplicate:
			e.duplicates++
		case o.Replaced:
			e.replaced++
		case o.Debounced:
			e.debounced++
		default:
			e.added++
		}
		if e.a.json {
			answer := struct {
				Line int `json:"line"`
				dbq.Enqueued
			}{part[i].line, o}
			if err := e.a.printJSON(answer); err != nil {
				return err
			}
		}
	}
	return nil
}
