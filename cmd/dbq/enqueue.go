package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

// enqueueFlags are the flags of enqueue. For lines they are what a line does not say.
type enqueueFlags struct {
	line        taskLine
	headers     []string
	payloadFile string
	lines       bool
	file        string
}

func newEnqueue(a *app) *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue --queue QUEUE [--payload TEXT | --payload-file FILE | --lines]",
		Short: "Put one task on a queue, or many from JSON lines",
		Long: `Put one task on a queue and print its id, or many from JSON lines.

A reference is unique in its queue for as long as the task exists. Enqueueing it again is refused with exit code 4, so an enqueue with a
reference is safe to repeat.

With --lines, each line of stdin (or of --file) is a task; flags say what a line leaves out:

  {"queue": "mail", "kind": "welcome", "payload": {"to": 42}, "reference": "user-42", "priority": 0,
   "delay": "5m", "max_attempts": 3, "headers": {"trace": "abc"}}

All fields may be left out. A payload that is a JSON string is its text, any other JSON value is itself; bytes go into
payload_base64. There is run_at (RFC 3339) instead of delay, and id (a UUID of version 7). A reference that is taken is counted
and is no error. Lines are enqueued in batches; when one is refused, those before it are enqueued, and the error says how many.
With --json each task is answered with a line {"line":1,"id":"…","duplicate":false}.

By default it uses ./dbq.db, which it creates when missing.`,
		Example: `  dbq enqueue --queue mail --payload 'hello'
  dbq enqueue --queue resize --kind jpeg --payload-file photo.jpg --reference photo-17
  date | dbq enqueue --queue mail --payload-file - --delay 5m --max-attempts 3
  seq 1000 | sed 's/.*/{"payload": "&"}/' | dbq enqueue --queue numbers --lines`,
		Args: noArgs("give the payload as --payload TEXT"),
	}
	l := cmd.Flags()
	l.StringVarP(&f.line.Queue, "queue", "q", "", "the queue's `NAME`")
	l.StringVar(&f.line.Kind, "kind", "", "the task's `KIND`, which handlers are chosen by")
	payload := l.String("payload", "", "the payload as `TEXT`")
	l.StringVar(&f.payloadFile, "payload-file", "", "read the payload from `FILE` (- is stdin)")
	l.StringVar(&f.line.Reference, "reference", "", "a `NAME` that is unique in the queue")
	l.IntVar(&f.line.Priority, "priority", 0, fmt.Sprintf("priority `P` from 0 (first) to %d", dbq.MaxPriority))
	var delay time.Duration
	durationVar(l, &delay, "delay", 0, "not before this `TIME` from now, such as 90s, 12h or 3d")
	l.StringVar(&f.line.RunAt, "run-at", "", "not before this `TIME`, such as 2030-01-31T08:00:00Z")
	l.IntVar(&f.line.MaxAttempts, "max-attempts", 0, fmt.Sprintf("try `N` times (default %d)", dbq.DefaultMaxAttempts))
	l.StringArrayVar(&f.headers, "header", nil, "a header as `KEY=VALUE`; repeatable")
	l.BoolVar(&f.lines, "lines", false, "read many tasks from stdin, one JSON object on each line")
	l.StringVar(&f.file, "file", "", "read many tasks from `FILE` instead of stdin (- is stdin)")
	a.completeQueueFlag(cmd)
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		for _, names := range [][]string{{"payload", "payload-file", "lines"}, {"payload", "payload-file", "file"}, {"delay", "run-at"}} {
			if err := clash(l, names...); err != nil {
				return err
			}
		}
		if delay != 0 {
			f.line.Delay = formatDuration(delay)
		}
		if err := f.readHeaders(); err != nil {
			return err
		}
		if f.lines || f.file != "" {
			return a.enqueueLines(ctx, f)
		}
		if f.line.Queue == "" {
			return usagef("--queue is missing: dbq enqueue --queue NAME")
		}
		t, err := f.line.task(taskLine{})
		if err != nil {
			return err
		}
		if l.Changed("payload") {
			t.Payload = []byte(*payload)
		} else if f.payloadFile != "" {
			if t.Payload, err = a.readPayload(f.payloadFile); err != nil {
				return err
			}
		}
		return a.enqueueOne(ctx, f.line.Queue, t)
	})
	return cmd
}

func (f *enqueueFlags) readHeaders() error {
	for _, h := range f.headers {
		key, value, ok := strings.Cut(h, "=")
		if !ok || key == "" {
			return usagef("--header %q is not KEY=VALUE", h)
		}
		if f.line.Headers == nil {
			f.line.Headers = map[string]string{}
		}
		f.line.Headers[key] = value
	}
	return nil
}

func (a *app) readPayload(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.in)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("cannot read the payload: %w", err)
	}
	return b, nil
}

func (a *app) enqueueOne(ctx context.Context, queue string, t dbq.NewTask) error {
	c, err := a.openOrMake(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	t.ID = dbq.NewID() // known beforehand, so that an enqueue that may have happened can be looked up
	id, err := c.Queue(queue).Enqueue(ctx, t)
	switch {
	case errors.Is(err, dbq.ErrMayHaveHappened):
		return fmt.Errorf("%w: `dbq show %s` tells", err, t.ID)
	case err != nil:
		return err
	case a.json:
		return a.printJSON(map[string]any{"id": id})
	}
	return a.say("%s", id)
}

// parseRunAt reads the time of --run-at and run_at.
func parseRunAt(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usagef("the time %q is not like 2030-01-31T08:00:00Z", text)
	}
	return t, nil
}
