package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// enqueueFlags are the flags of enqueue. For lines they are the defaults.
type enqueueFlags struct {
	line                       taskLine
	delay                      time.Duration
	headers                    []string
	payload, payloadFile, file string
	lines                      bool
}

func newEnqueue(a *app) *cobra.Command {
	var f enqueueFlags
	var l *pflag.FlagSet
	cmd := a.command("dbq enqueue", noArgs("give the payload as --payload TEXT"),
		func(ctx context.Context, _ []string) error {
			err := cmp.Or(clash(l, "payload", "payload-file", "lines"), clash(l, "payload", "payload-file", "file"),
				clash(l, "delay", "run-at"), clash(l, "unique-while", "unique-period"), f.readHeaders())
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
	a.addQueueFlag(cmd, &f.line.Queue, "the queue's `NAME`")
	l = cmd.Flags()
	l.StringVar(&f.line.Kind, "kind", "", "the task's `KIND`, which selects its handler")
	l.StringVar(&f.payload, "payload", "", "the payload as `TEXT`")
	l.StringVar(&f.payloadFile, "payload-file", "", "read the payload from `FILE` (- is stdin)")
	l.StringVar(&f.line.Reference, "reference", "", "a `NAME` that is unique in the queue")
	f.line.uniqueLine.addFlags(l)
	l.StringVar(&f.line.Key, "key", "", "the tenant, customer or account of the task: its `KEY` for limits per key")
	l.IntVar(&f.line.Priority, "priority", 0, fmt.Sprintf("priority `P` from 0 (first) to %d", dbq.MaxPriority))
	durationVar(l, &f.delay, "delay", 0, "not before this `TIME` from now, such as 90s, 12h or 3d")
	l.StringVar(&f.line.RunAt, "run-at", "", "not before this `TIME`, such as 2030-01-31T08:00:00Z")
	l.IntVar(&f.line.MaxAttempts, "max-attempts", 0, fmt.Sprintf("try `N` times (default %d)", dbq.DefaultMaxAttempts))
	l.StringArrayVar(&f.headers, "header", nil, "a header as `KEY=VALUE`; repeatable")
	l.BoolVar(&f.lines, "lines", false, "read many tasks from stdin, one JSON object on each line")
	l.StringVar(&f.file, "file", "", "read many tasks from `FILE` instead of stdin (- is stdin)")
	return cmd
}

func (f *enqueueFlags) readHeaders() error {
	for _, h := range f.headers {
		key, value, ok := strings.Cut(h, "=")
		if !ok || key == "" {
			return usagef("--header: write KEY=VALUE")
		}
		if f.line.Headers == nil {
			f.line.Headers = map[string]string{}
		}
		f.line.Headers[key] = value
	}
	return nil
}

// readPayload returns the payload of --payload, if it is given, or of --payload-file.
func (a *app) readPayload(given bool, text, file string) (payload []byte, err error) {
	switch {
	case given:
		return []byte(text), nil
	case file == "-":
		payload, err = io.ReadAll(a.in)
	case file != "":
		payload, err = a.readFile(file)
	}
	if err != nil {
		return nil, usagef("cannot read the payload: %w", unnamed(err))
	}
	return payload, nil
}

func (a *app) enqueueOne(ctx context.Context, f enqueueFlags, hasPayload bool) error {
	if f.line.Queue == "" {
		return usagef("--queue is missing: dbq enqueue --queue NAME")
	}
	t, err := f.line.task(taskLine{})
	if err == nil {
		t.Payload, err = a.readPayload(hasPayload, f.payload, f.payloadFile)
	}
	if err != nil {
		return err
	}
	t.ID = dbq.NewID() // known in advance, so the outcome of a lost enqueue can be looked up
	return a.use(ctx, true, func(c *dbq.Client) error {
		id, err := c.Queue(f.line.Queue).Enqueue(ctx, t)
		switch {
		case errors.Is(err, dbq.ErrMayHaveHappened):
			return fmt.Errorf("%w: see `dbq show %s`", err, t.ID)
		case err != nil:
			return err
		}
		answer := map[string]any{"id": id}
		if id != t.ID { // another task has the unique key
			answer[f.line.outcome()] = true
		}
		return a.result(answer, "%s", id)
	})
}

// taskLine is a task as given by a JSON line or by flags.
type taskLine struct {
	ID            string            `json:"id"`
	Queue         string            `json:"queue"`
	Kind          string            `json:"kind"`
	Payload       json.RawMessage   `json:"payload"`
	PayloadBase64 *string           `json:"payload_base64"`
	Reference     string            `json:"reference"`
	Key           string            `json:"key"`
	Priority      int               `json:"priority"`
	Delay         string            `json:"delay"`
	RunAt         string            `json:"run_at"`
	MaxAttempts   int               `json:"max_attempts"`
	Headers       map[string]string `json:"headers"`

	uniqueLine
}

// parseTaskLine reads one line; the flags give the defaults.
func parseTaskLine(text []byte, flags taskLine) (queue string, t dbq.NewTask, err error) {
	l := taskLine{Queue: flags.Queue, Kind: flags.Kind, Priority: flags.Priority, MaxAttempts: flags.MaxAttempts,
		Key: flags.Key, uniqueLine: flags.uniqueLine}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return "", t, usagef("%s", jsonMistake(err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return "", t, usagef("there is text after the JSON object")
	}
	if l.Queue == "" {
		return "", t, usagef("no queue: add one to the line, or give one for all lines with --queue")
	}
	t, err = l.task(flags)
	return l.Queue, t, err
}

// jsonMistake explains a JSON error without the names of Go's types.
func jsonMistake(err error) string {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON object is incomplete"
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return "it is a JSON " + wrongType.Value + ", not an object"
	case errors.As(err, &wrongType):
		return fmt.Sprintf("%s cannot be a JSON %s", wrongType.Field, wrongType.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// task makes the task. The flags apply where the line has no value.
func (l taskLine) task(flags taskLine) (dbq.NewTask, error) {
	t := dbq.NewTask{Kind: l.Kind, Reference: l.Reference, Key: l.Key, Priority: l.Priority, MaxAttempts: l.MaxAttempts}
	if l.Delay == "" && l.RunAt == "" {
		l.Delay, l.RunAt = flags.Delay, flags.RunAt
	}
	var err error
	if l.ID != "" {
		if t.ID, err = uuid.Parse(l.ID); err != nil {
			return t, usagef("the id is not a UUID")
		}
	}
	if l.Delay != "" {
		if t.Delay, err = parseDuration(l.Delay); err != nil {
			return t, usagef("the delay: %w", err)
		}
	}
	if l.RunAt != "" {
		if t.RunAt, err = time.Parse(time.RFC3339, l.RunAt); err != nil {
			return t, usagef("the time does not have the form 2030-01-31T08:00:00Z")
		}
	}
	if t.Headers = maps.Clone(flags.Headers); t.Headers == nil {
		t.Headers = l.Headers
	} else {
		maps.Copy(t.Headers, l.Headers)
	}
	if t.Unique, err = l.unique(); err != nil {
		return t, err
	}
	t.Payload, err = l.payload()
	return t, err
}

func (l taskLine) payload() ([]byte, error) {
	switch {
	case l.Payload != nil && l.PayloadBase64 != nil:
		return nil, usagef("give payload or payload_base64, not both")
	case l.PayloadBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*l.PayloadBase64)
		if err != nil {
			return nil, usagef("payload_base64 is not base64: %w", err)
		}
		return b, nil
	case l.Payload == nil || string(l.Payload) == "null":
		return nil, nil
	case l.Payload[0] == '"':
		var text string
		err := json.Unmarshal(l.Payload, &text)
		return []byte(text), err
	}
	return l.Payload, nil
}
