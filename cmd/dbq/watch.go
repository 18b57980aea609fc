package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

const (
	watchDefault = 2 * time.Second
	watchLeast   = 100 * time.Millisecond
)

// addWatch adds --watch, alone or as --watch=TIME.
func addWatch(cmd *cobra.Command, every *time.Duration) {
	text := formatDuration(watchDefault)
	durationVar(cmd.Flags(), every, "watch", 0, "show it again every `TIME` until Ctrl-C (--watch alone: "+text+")")
	cmd.Flags().Lookup("watch").NoOptDefVal = text
}

// watch shows something once, or again and again until ctx ends. On a terminal it stays in one place. It goes on when
// the database cannot be reached for a while.
func (a *app) watch(ctx context.Context, every time.Duration, show func() error) error {
	if every == 0 {
		return show()
	}
	if every < watchLeast {
		return usagef("--watch=%s: it must be at least %s", formatDuration(every), formatDuration(watchLeast))
	}
	out := a.out
	defer func() { a.out = out }()
	for {
		var page bytes.Buffer
		a.out = &page
		err := show()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, dbq.ErrUnavailable):
			return err
		}
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J") // to the upper left, and clear
		}
		if err != nil {
			a.note("dbq: %s", oneLine(err.Error()))
		}
		if _, err := io.Copy(out, &page); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
