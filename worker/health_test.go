package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// The log has a line when the database stops answering or refuses an operation, and when that is over, and none for
// each try.
func TestHealthIsLoggedWhenItChanges(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("dial: %w", dbq.ErrUnavailable)
	writing := errors.Join(dbq.ErrWriterBusy, dbq.ErrUnavailable)
	denied := &dbq.Error{Op: "clean", Class: dialect.Denied, Err: dbq.ErrDenied}
	missing := &dbq.Error{Op: "clean", Class: dialect.Missing, Err: dbq.ErrNotMigrated}
	found := errors.New("no error: it found tasks")
	const gone, busy, back = "does not answer", "only writer", "answers again"
	const refuses, accepts = "refuses an operation", "accepts an operation again"
	for name, c := range map[string]struct {
		ends []any // an operation and how it ended, in turn
		want []string
	}{
		"nothing": {[]any{opSettle, nil, opDue, nil}, nil},
		"away and back": {[]any{opDue, away, opDue, away, opSettle, away, opDue, nil, opSettle, nil},
			[]string{gone, back}},
		"registry":    {[]any{opRenew, away, opSettle, away, opDue, nil, opRegistry, nil}, []string{gone, back}},
		"empty polls": {[]any{opSettle, away, opCheckOut, nil, opSettle, away, opCheckOut, nil}, []string{gone}},
		"tasks":       {[]any{opSettle, away, opCheckOut, nil, opCheckOut, found}, []string{gone, back}},
		"unknown":     {[]any{opSettle, dbq.ErrMayHaveHappened, opSettle, nil}, []string{gone, back}},
		"too slow":    {[]any{opRenew, context.DeadlineExceeded, opDue, nil, opRenew, nil}, []string{gone, back}},
		"writer busy": {[]any{opRenew, writing, opSettle, writing, opRenew, nil, opSettle, nil}, []string{busy, back}},
		"broken off":  {[]any{opRenew, context.Canceled, opCheckOut, dbq.ErrClosed}, nil},
		"denied": {[]any{opClean, denied, opCheckOut, nil, opClean, denied, opClean, nil},
			[]string{refuses, accepts}},
		"for other causes": {[]any{opClean, denied, opClean, missing, opClean, errors.New("?")},
			[]string{refuses, refuses, refuses}},
		"both": {[]any{opClean, denied, opDue, away, opDue, nil}, []string{refuses, gone, back}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			r := newLogger(slog.New(slog.NewTextHandler(&log, nil)))
			defer r.close()
			h := newHealth(r)
			for i := 0; i < len(c.ends); i += 2 {
				err, _ := c.ends[i+1].(error)
				if err == found { // it is the value itself
					h.leasedSome()
					continue
				}
				h.report(c.ends[i].(operation), err)
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if log.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(c.want) {
				t.Fatalf("got\n%s\nwant %q", log.String(), c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %s, want one with %q", i, lines[i], want)
				}
			}
		})
	}
}

// A window has a few lines of each kind, and one with the number of the others.
func TestLinesOfAKindAreLimited(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newLogger(slog.New(slog.NewTextHandler(&log, nil)))
	for range 100 {
		r.each(lineFailed)
	}
	for i := range 100 {
		r.count(lineLost, dbq.NewID(), fmt.Sprint(i), "cause", i)
	}
	r.close()
	r.each(lineFailed)
	for text, want := range map[string]int{
		lineFailed.text: logMost + 1, "count=90": 1, lineLost.text: logCauses, "tasks=91": 1,
	} {
		if got := strings.Count(log.String(), `msg="`+text) + strings.Count(log.String(), " "+text); got != want {
			t.Errorf("%d lines with %q, want %d:\n%s", got, text, want, log.String())
		}
	}
}
