package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

func newShow(a *app) *cobra.Command {
	var payload, result bool
	var cmd *cobra.Command
	cmd = a.command("dbq show", oneID, a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
		if err := clash(cmd.Flags(), "payload", "result", "json"); err != nil {
			return err
		}
		t, err := c.Get(ctx, uuid.MustParse(args[0]))
		switch {
		case err != nil:
			return err
		case payload:
			return writeBytes(a.out, t.Payload)
		case result:
			return writeBytes(a.out, t.Result)
		}
		return a.printTask(ctx, c, t)
	}))
	cmd.Flags().BoolVar(&payload, "payload", false, "write only the payload's bytes")
	cmd.Flags().BoolVar(&result, "result", false, "write only the result's bytes")
	return cmd
}

// printTask prints a task with its attempts.
func (a *app) printTask(ctx context.Context, c *dbq.Client, t dbq.Task) error {
	attempts, err := admin.New(c).Attempts(ctx, t.ID)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			wire.Task
			Attempts []dbq.Attempt `json:"attempts,omitempty"`
		}{wire.TaskOf(t), attempts})
	}
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	of := ""
	if id, name, err := workflow.Of(ctx, c, t.ID); err == nil {
		of = fmt.Sprintf("%s, step %q", id, name)
	}
	_, err = io.WriteString(a.out, describe(t, of, attempts, now))
	return err
}

// timeFormat is how a point in time is shown.
const timeFormat = "2006-01-02 15:04:05.000 MST"

// describe formats a task with its attempts for people: a line for each field that is set. of is its workflow.
func describe(t dbq.Task, of string, attempts []dbq.Attempt, now time.Time) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, visible(fmt.Sprintf(format, args...)))
	}
	text := func(name, text string) {
		if text != "" {
			line(name, "%s", text)
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			line(name, "%s", t.Format(timeFormat))
		}
	}
	text("id", t.ID.String())
	text("queue", t.Queue)
	line("state", "%v, %s", t.State, when(t, now))
	text("workflow", of)
	text("kind", t.Kind)
	text("reference", t.Reference)
	text("key", t.Key)
	line("priority", "%d", t.Priority)
	line("attempts", "%d of %d%s", t.Attempt, t.MaxAttempts, lastAttempt(t, now))
	if t.Lapses > 0 {
		line("lapses", "%d", t.Lapses)
	}
	line("fence", "%d", t.Fence)
	text("holder", t.Holder)
	at("created", t.Created)
	at("updated", t.Updated)
	at("due", t.Due)
	at("lease until", t.LeaseUntil)
	for _, k := range slices.Sorted(maps.Keys(t.Headers)) {
		line("header", "%s=%s", k, t.Headers[k])
	}
	describeBytes(&b, "payload", t.Payload)
	describeBytes(&b, "result", t.Result)
	if t.Progress != nil {
		describeBytes(&b, "progress", t.Progress)
	}
	for _, at := range attempts {
		failure := ""
		if at.Error != "" {
			failure = ": " + at.Error
		}
		line("attempt", "%d %s after %s, %s, by %s%s", at.Number, at.Outcome, span(at.Ended.Sub(at.Taken)),
			at.Taken.Format(timeFormat), at.Worker, failure)
	}
	return b.String()
}

// lastAttempt returns the time of the last attempt of a failed task, if its workers have the default pauses, as text.
func lastAttempt(t dbq.Task, now time.Time) string {
	if t.State != dbq.StateError || t.Due.IsZero() || t.Attempt >= t.MaxAttempts {
		return ""
	}
	at := t.Due
	for attempt := t.Attempt + 1; attempt < min(t.MaxAttempts, 1000); attempt++ {
		at = at.Add(dbq.DefaultBackoff(attempt))
	}
	return fmt.Sprintf("; the last one is in about %s with the default pauses", span(max(at.Sub(now), 0)))
}

// shownBytes limits the part of a payload that is shown.
const shownBytes = 4096

func describeBytes(b *strings.Builder, name string, data []byte) {
	if data == nil {
		fmt.Fprintf(b, "%-11s none\n", name)
		return
	}
	shown := data[:min(len(data), shownBytes)]
	text := isText(data)
	if !text {
		shown = data[:min(len(data), shownBytes/16)]
	}
	more := ""
	if len(shown) < len(data) {
		more = fmt.Sprintf(", the first %d shown", len(shown))
	}
	fmt.Fprintf(b, "%-11s %d bytes%s\n", name, len(data), more)
	dump := hex.Dump(shown)
	if text {
		dump = visibleLines(strings.ToValidUTF8(string(shown), ""))
	}
	for l := range strings.Lines(dump) {
		b.WriteString("  " + strings.TrimSuffix(l, "\n") + "\n")
	}
}

// isText reports whether bytes are text for people: UTF-8 without control characters other than line ends and tabs.
func isText(b []byte) bool {
	return utf8.Valid(b) && !strings.ContainsFunc(string(b), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	})
}

func newWait(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := a.command("dbq wait", oneID, a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
		id := uuid.MustParse(args[0])
		waitCtx, cancel := context.WithCancel(ctx)
		if timeout > 0 {
			waitCtx, cancel = context.WithTimeout(ctx, timeout)
		}
		defer cancel()
		t, err := c.Wait(waitCtx, id)
		if errors.Is(err, context.DeadlineExceeded) {
			if t, err := c.Get(ctx, id); err == nil {
				return failedf("task %s has not ended after %s: it is %v", id, duration.Format(timeout), t.State)
			}
		}
		if err != nil {
			return err
		}
		return a.printEnd(t)
	}))
	durationVar(cmd.Flags(), &timeout, "timeout", 0, "give up after this `TIME` (default never)")
	return cmd
}

// printEnd prints the result of a task that has ended. It is an error when the task is not COMPLETED.
func (a *app) printEnd(t dbq.Task) error {
	completed := t.State == dbq.StateCompleted
	if completed && !a.json {
		return writeBytes(a.out, t.Result)
	}
	if a.json {
		if err := a.printJSON(wire.TaskOf(t)); err != nil || completed {
			return err
		}
	}
	text := fmt.Sprintf("task %s is %v", t.ID, t.State)
	if t.Parked() {
		text += ", parked"
	}
	if len(t.Result) > 0 {
		text += ": " + string(t.Result)
	}
	return failedf("%s", text)
}
