package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

func newShow(a *app) *cobra.Command {
	var payload, result bool
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "show ID",
		Short: "Show one task with its payload and result",
		Long: `Show one task with its payload, its result and its attempts. Bytes that are not text are shown in hex. --payload and --result write only
those bytes to stdout; on a terminal, control characters are escaped.

With --json the task is one document; bytes that are not UTF-8 are in payload_base64 and result_base64.`,
		Example: `  dbq show 0198c1f2-7a3b-7c4d-8e5f-0123456789ab
  dbq show 0198c1f2-7a3b-7c4d-8e5f-0123456789ab --payload > payload.bin`,
		Args: exactlyOneID,
		RunE: a.verb(func(ctx context.Context, args []string) error {
			if err := clash(cmd.Flags(), "payload", "result", "json"); err != nil {
				return err
			}
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			t, err := c.Get(ctx, id)
			switch {
			case err != nil:
				return err
			case payload:
				err = writeBytes(a.out, t.Payload)
			case result:
				err = writeBytes(a.out, t.Result)
			default:
				err = a.printTask(ctx, c, t)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "write the payload's bytes, nothing else")
	cmd.Flags().BoolVar(&result, "result", false, "write the result's bytes, nothing else")
	return cmd
}

// printTask shows a task with its attempts.
func (a *app) printTask(ctx context.Context, c *dbq.Client, t dbq.Task) error {
	attempts, err := c.Attempts(ctx, t.ID)
	if err != nil {
		return err
	}
	if a.json {
		v := viewOf(t)
		v.Attempts = attempts
		return a.printJSON(v)
	}
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	return a.sayLines(describe(t, now) + describeAttempts(attempts))
}

// describeAttempts is the history of a task, a line for each attempt.
func describeAttempts(as []dbq.Attempt) string {
	var b strings.Builder
	for _, at := range as {
		fmt.Fprintf(&b, "%-11s %d %s after %s, %s, by %s", "attempt", at.Attempt, visible(string(at.Outcome)), span(at.Ended.Sub(at.Started)),
			at.Started.Format("2006-01-02 15:04:05.000 MST"), visible(at.Worker))
		if at.Error != "" {
			b.WriteString(": " + visible(at.Error))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func exactlyOneID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("give one task id, not %d", len(args))
	}
	return nil
}

// describe is a task for a person, a line for each thing that is there.
func describe(t dbq.Task, now time.Time) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, visible(fmt.Sprintf(format, args...)))
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			line(name, "%s", t.Format("2006-01-02 15:04:05.000 MST"))
		}
	}
	line("id", "%s", t.ID)
	line("queue", "%s", t.Queue)
	line("state", "%v, %s", t.State, when(t, now))
	if t.Kind != "" {
		line("kind", "%s", t.Kind)
	}
	if t.Reference != "" {
		line("reference", "%s", t.Reference)
	}
	line("priority", "%d", t.Priority)
	line("attempts", "%d of %d", t.Attempt, t.MaxAttempts)
	if t.Lapses > 0 {
		line("lapses", "%d", t.Lapses)
	}
	line("fence", "%d", t.Fence)
	if t.Holder != "" {
		line("holder", "%s", t.Holder)
	}
	at("created", t.Created)
	at("updated", t.Updated)
	at("due", t.Due)
	at("lease until", t.LeaseUntil)
	for _, k := range slices.Sorted(maps.Keys(t.Headers)) {
		line("header", "%s=%s", k, t.Headers[k])
	}
	describeBytes(&b, "payload", t.Payload)
	describeBytes(&b, "result", t.Result)
	return b.String()
}

// shownBytes bounds how much of a payload is shown.
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
	switch {
	case len(data) == 0:
	case text:
		for l := range strings.Lines(strings.ToValidUTF8(string(shown), "")) {
			fmt.Fprintf(b, "  %s\n", strings.TrimSuffix(visibleLines(l), "\n"))
		}
	default:
		for l := range strings.Lines(hex.Dump(shown)) {
			b.WriteString("  " + l)
		}
	}
}
