package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// enqueueFlags are the flags of enqueue. For lines they are the defaults.
type enqueueFlags struct {
	line                       taskLine
	unique                     wire.Unique
	runAt                      string
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
				clash(l, "delay", "run-at"), clash(l, "unique-while", "unique-period"), f.readHeaders(),
				readTime("run-at", f.runAt, &f.line.RunAt))
			if err != nil {
				return err
			}
			if f.unique != (wire.Unique{}) {
				f.line.Unique = &f.unique
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
	addUniqueFlags(l, &f.unique)
	l.StringVar(&f.line.Key, "key", "", "the tenant, customer or account of the task: its `KEY` for limits per key")
	l.IntVar(&f.line.Priority, "priority", 0, fmt.Sprintf("priority `P` from 0 (first) to %d", dbq.MaxPriority))
	durationVar(l, (*time.Duration)(&f.line.Delay), "delay", 0, "not before this `TIME` from now, such as 90s, 12h or 3d")
	l.StringVar(&f.runAt, "run-at", "", "not before this `TIME`, such as 2030-01-31T08:00:00Z")
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
	if f.unique != (wire.Unique{}) && f.unique.Key == "" {
		return usagef("the unique key is missing: --unique KEY")
	}
	t, _ := f.line.Task() // the payload is not in it
	var err error
	t.Payload, err = a.readPayload(hasPayload, f.payload, f.payloadFile)
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
		other := id != t.ID // it has the unique key
		replaced := f.unique.OnConflict == dbq.UniqueReplace
		return a.result(dbq.Enqueued{ID: id, Replaced: other && replaced, Debounced: other && !replaced}, "%s", id)
	})
}

// addUniqueFlags adds the flags of a unique rule.
func addUniqueFlags(l *pflag.FlagSet, u *wire.Unique) {
	length := func(to *duration.Seconds, name, usage string) {
		durationVar(l, (*time.Duration)(to), name, 0, usage).least = time.Microsecond
	}
	l.StringVar(&u.Key, "unique", "", "do not enqueue while another task has this `KEY`")
	l.StringVar((*string)(&u.While), "unique-while", "",
		"how long a task has its key: `SCOPE` is pending (default) or unfinished")
	length(&u.Period, "unique-period", "one task for each period of this `TIME`, such as 1h, in UTC")
	length(&u.Window, "unique-window", "one task in this `TIME` after its enqueue, such as 1h")
	l.StringVar((*string)(&u.OnConflict), "on-conflict", "",
		"`ACTION` if the key is taken: keep (default), replace or debounce")
	length(&u.MaxWait, "max-wait", "do not postpone a task beyond this `TIME` after it was created")
}

// taskLine is a task as a line has it: as the HTTP API takes it, and its queue.
type taskLine struct {
	Queue string `json:"queue"`
	wire.NewTask
}

// parseTaskLine reads one line; the flags give the defaults.
func parseTaskLine(text []byte, flags taskLine) (queue string, t dbq.NewTask, err error) {
	l := flags
	l.Reference, l.Delay, l.RunAt, l.Headers = "", 0, time.Time{}, maps.Clone(flags.Headers)
	if u := flags.Unique; u != nil {
		own := *u
		l.Unique = &own
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return "", t, usagef("%s", jsonMistake(err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return "", t, usagef("there is text after the JSON object")
	}
	if l.Queue == "" {
		return "", t, usagef("no queue: add a field queue, or give one for all with --queue")
	}
	if l.Delay == 0 && l.RunAt.IsZero() {
		l.Delay, l.RunAt = flags.Delay, flags.RunAt
	}
	t, p := l.Task()
	if p != nil {
		return "", t, usagef("%s", p.Errors[0].Message)
	}
	return l.Queue, t, nil
}

// jsonMistake explains a JSON error without the names of Go's types.
func jsonMistake(err error) string {
	var wrongType *json.UnmarshalTypeError
	var wrongTime *time.ParseError
	switch {
	case errors.As(err, &wrongTime): // its text has the given time
		return "a time does not have the form 2030-01-31T08:00:00Z"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON object is incomplete"
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return "it is a JSON " + wrongType.Value + ", not an object"
	case errors.As(err, &wrongType):
		names := slices.DeleteFunc(strings.Split(wrongType.Field, "."), func(name string) bool {
			return name != strings.ToLower(name) // of an embedded struct
		})
		return fmt.Sprintf("%s cannot be a JSON %s", strings.Join(names, "."), wrongType.Value)
	case strings.HasPrefix(err.Error(), "invalid U"), strings.HasPrefix(err.Error(), "invalid urn"): // of package uuid
		return "the id is not a UUID"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

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

// lineEnqueuer enqueues lines, or the rows of a query, batch by batch.
type lineEnqueuer struct {
	a       *app
	c       *dbq.Client
	unit    string // "line" or "row"
	flags   taskLine
	show    *progress
	answers bool // print one for each task
	dryRun  bool // roll each batch back

	batch []numbered
	bytes int // of the payloads in the batch

	added, duplicates, replaced, debounced int
}

// numbered is a task and the line or the row that it came from.
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
		e := &lineEnqueuer{a: a, c: c, unit: "line", flags: f.line, show: newProgress(a.err), answers: a.json}
		start := time.Now()
		done, err := e.end(ctx, start, e.run(ctx, readLines(ctx, in)))
		if err != nil {
			return err
		}
		if a.json { // stdout is for the answers
			a.note("%s", done)
		}
		return a.result(nil, "%s", done)
	})
}

// end describes the tasks that were enqueued since start. If the run failed, its error has this description.
func (e *lineEnqueuer) end(ctx context.Context, start time.Time, err error) (done string, _ error) {
	e.show.end()
	done = plural(e.added, "task") + " " + e.past()
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
		return "", &interrupted{done}
	case err != nil:
		return "", fmt.Errorf("%w; until then: %s", err, done)
	}
	return done + fmt.Sprintf(" in %v", time.Since(start).Round(time.Millisecond)), nil
}

func (e *lineEnqueuer) past() string {
	if e.dryRun {
		return "would be enqueued"
	}
	return "enqueued"
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
		return fmt.Errorf("%s %d: %w", e.unit, l.number, err)
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
	e.show.update("%s %s", plural(e.added+e.duplicates+e.replaced+e.debounced, "task"), e.past())
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
	out, err := e.enqueueMany(ctx, e.c.Queue(part[0].queue), tasks)
	switch {
	case err != nil && first == last:
		return fmt.Errorf("%s %d: %w", e.unit, first, err)
	case err != nil:
		return fmt.Errorf("%ss %d to %d: %w", e.unit, first, last, err)
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
		if e.answers {
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

// enqueueMany enqueues tasks in one transaction.
func (e *lineEnqueuer) enqueueMany(ctx context.Context, q *dbq.Queue, tasks []dbq.NewTask) ([]dbq.Enqueued, error) {
	if !e.dryRun {
		return q.EnqueueMany(ctx, tasks)
	}
	tx, err := e.c.DB().BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	return q.EnqueueManyTx(ctx, tx, tasks)
}
