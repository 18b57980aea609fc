package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
)

func TestExitCodeOfEachError(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), errors.New("unforeseen"), exitFailed},
		{t.Context(), usagef("x"), exitUsage},
		{t.Context(), dbq.ErrQueueName, exitUsage},
		{t.Context(), dbq.ErrNotFound, exitNotFound},
		{t.Context(), dbq.ErrDuplicate, exitState},
		{t.Context(), dbq.ErrLeaseLost, exitState},
		{t.Context(), dbq.ErrWrongState, exitState},
		{t.Context(), dbq.ErrUnavailable, exitUnavailable},
		{t.Context(), dbq.ErrDenied, exitUnavailable},
		{t.Context(), dbq.ErrServer, exitServer},
		{t.Context(), dbq.ErrConflict, exitUnavailable},
		{t.Context(), dbq.ErrNotMigrated, exitNotMigrated},
		{t.Context(), dbq.ErrSchemaOld, exitNotMigrated},
		{t.Context(), dbq.ErrSchemaNew, exitNotMigrated},
		{t.Context(), dbq.ErrMayHaveHappened, exitMayHappened},
		{t.Context(), fmt.Errorf("%w: %w", dbq.ErrMayHaveHappened, dbq.ErrUnavailable), exitMayHappened},
		{ended, context.Canceled, exitInterrupted},
		{ended, fmt.Errorf("%w: %w", dbq.ErrMayHaveHappened, context.Canceled), exitMayHappened},
		{ended, errors.New("something else"), exitFailed},
	} {
		if got := exitCode(c.ctx, fmt.Errorf("wrapped: %w", c.err), true); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

func TestHeadBuffer(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, headLimit, headLimit + 1, 3 * headLimit} {
		var b headBuffer
		text := strings.Repeat("€", n/3) + strings.Repeat("x", n%3)
		for from := 0; from < len(text); from += 1000 {
			if _, err := b.Write([]byte(text[from:min(from+1000, len(text))])); err != nil {
				t.Fatal(err)
			}
		}
		got := string(b.result())
		if n <= headLimit && got != text {
			t.Errorf("%d bytes are not kept as they are", n)
		}
		if n > headLimit && (len(got) > dbq.MaxResult || !utf8.ValidString(got) ||
			!strings.HasSuffix(got, fmt.Sprintf("[cut from %d bytes]", n))) {
			t.Errorf("of %d bytes: %d, valid %v, end %q", n, len(got), utf8.ValidString(got), got[len(got)-40:])
		}
	}
}

func TestTailBuffer(t *testing.T) {
	t.Parallel()
	var b tailBuffer
	for i := range 10_000 {
		if _, err := fmt.Fprintf(&b, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.String(); len(got) > dbq.MaxResult-100 || !strings.HasPrefix(got, "… ") ||
		!strings.HasSuffix(got, "line 9998\nline 9999") {
		t.Errorf("%d bytes: %q…", len(got), got[:20])
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]target{
		"a.db":                         {dsn: "sqlite:a.db", file: "a.db"},
		"./odd:name.db":                {dsn: "sqlite:./odd:name.db", file: "./odd:name.db"},
		"sqlite:b.db?synchronous=full": {dsn: "sqlite:b.db?synchronous=full", file: "b.db"},
		"c.db?synchronous=full":        {dsn: "sqlite:c.db?synchronous=full", file: "c.db"},
		"sqlite:///tmp/d.db":           {dsn: "sqlite:///tmp/d.db", file: "/tmp/d.db"},
		"sqlite::memory:":              {dsn: "sqlite::memory:"},
		"postgres://u@h/d":             {dsn: "postgres://u@h/d"},
	} {
		got, err := (&app{dsn: text}).target()
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 340 * time.Millisecond: "340ms", 2340 * time.Millisecond: "2.3s", 59 * time.Second: "59s",
		61 * time.Second: "1m1s", 90 * time.Minute: "1h30m", 49 * time.Hour: "2d1h", 1000 * time.Hour: "41d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
