package main

import (
	"cmp"
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
	line                       taskLine
	delay                      time.Duration
	headers                    []string
	payload, payloadFile, file string
	lines                      bool
}

const enqueueLong = `Put one task on a queue and print its id, or many from JSON lines.

A reference is unique in its queue for as long as the task exists. Enqueueing it again is refused with exit
code 4, so an enqueue with a reference is safe to repeat.

With --lines, each line of stdin (or of --file) is a task; flags say what a line leaves out:

  {"queue": "mail", "kind": "welcome", "payload": {"to": 42}, "reference": "user-42", "priority": 0,
   "delay": "5m", "max_attempts": 3, "headers": {"trace": "abc"}}

Each field may be left out. A payload that is a JSON string is its text, and any other JSON value is itself;
bytes go into payload_base64. run_at (RFC 3339) may stand instead of delay, and id is a UUID of version 7.
A reference that is taken is counted and is not an error. Lines are enqueued in batches; when one is refused,
those before it are enqueued, and the error says how many. With --json each task is answered with a line
{"line":1,"id":"…","duplicate":false}.

By default it uses ./dbq.db, which it creates when missing.`

func newEnqueue(a *app) *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue --queue QUEUE [--payload TEXT | --payload-file FILE | --lines]",
		Short: "Put one task on a queue, or many from JSON lines",
		Long:  enqueueLong,
		Example: `  dbq enqueue --queue mail --payload 'hello'
  dbq enqueue --queue resize --kind jpeg --payload-file photo.jpg --reference photo-17
  date | dbq enqueue --queue mail --payload-file - --delay 5m --max-attempts 3
  seq 1000 | sed 's/.*/{"payload": "&"}/' | dbq enqueue --queue numbers --lines`,
		Args: noArgs("give the payload as --payload TEXT"),
	}
	a.addQueueFlag(cmd, &f.line.Queue, "the queue's `NAME`")
	l := cmd.Flags()
	l.StringVar(&f.line.Kind, "kind", "", "the task's `KIND`, which handlers are chosen by")
	l.StringVar(&f.payload, "payload", "", "the payload as `TEXT`")
	l.StringVar(&f.payloadFile, "payload-file", "", "read the payload from `FILE` (- is stdin)")
	l.StringVar(&f.line.Reference, "reference", "", "a `NAME` that is unique in the queue")
	l.IntVar(&f.line.Priority, "priority", 0, fmt.Sprintf("priority `P` from 0 (first) to %d", dbq.MaxPriority))
	durationVar(l, &f.delay, "delay", 0, "not before this `TIME` from now, such as 90s, 12h or 3d")
	l.StringVar(&f.line.RunAt, "run-at", "", "not before this `TIME`, such as 2030-01-31T08:00:00Z")
	l.IntVar(&f.line.MaxAttempts, "max-attempts", 0, fmt.Sprintf("try `N` times (default %d)", dbq.DefaultMaxAttempts))
	l.StringArrayVar(&f.headers, "header", nil, "a header as `KEY=VALUE`; repeatable")
	l.BoolVar(&f.lines, "lines", false, "read many tasks from stdin, one JSON object on each line")
	l.StringVar(&f.file, "file", "", "read many tasks from `FILE` instead of stdin (- is stdin)")
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		err := cmp.Or(clash(l, "payload", "payload-file", "lines"), clash(l, "payload", "payload-file", "file"),
			clash(l, "delay", "run-at"), f.readHeaders())
		if err != nil {
			return err
		}
		if f.delay != 0 {
			f.line.Delay = formatDuration(f.delay)
		}
		if f.lines || f.file != "" {
			return a.enqueueLines(ctx, f)
		}
		return a.enqueueOne(ctx, f, l.Changed("payload"))
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

func (a *app) enqueueOne(ctx context.Context, f enqueueFlags, hasPayload bool) error {
	if f.line.Queue == "" {
		return usagef("--queue is missing: dbq enqueue --queue NAME")
	}
	t, err := f.line.task(taskLine{})
	switch {
	case err != nil:
		return err
	case hasPayload:
		t.Payload = []byte(f.payload)
	case f.payloadFile == "-":
		t.Payload, err = io.ReadAll(a.in)
	case f.payloadFile != "":
		t.Payload, err = os.ReadFile(f.payloadFile)
	}
	if err != nil {
		return usagef("cannot read the payload: %w", err)
	}
	c, err := a.openOrMake(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	t.ID = dbq.NewID() // known in advance, so that an enqueue that may have happened can be looked up
	id, err := c.Queue(f.line.Queue).Enqueue(ctx, t)
	switch {
	case errors.Is(err, dbq.ErrMayHaveHappened):
		return fmt.Errorf("%w: see `dbq show %s`", err, t.ID)
	case err != nil:
		return err
	case a.json:
		return a.printJSON(map[string]any{"id": id})
	}
	return a.say("%s", id)
}
