package main

import (
	"context"
	"log/slog"
	"slices"
)

// newLogger logs to stderr what a person at the command line should know beside the results, such as a database that
// cannot be reached.
func newLogger(a *app) *slog.Logger {
	return slog.New(unprinted{slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})})
}

// printed are the lines about single attempts, which dbq work prints in its own words.
var printed = []string{
	"worker: attempt failed", "worker: task parked until an operator acts", "worker: task went to POISON",
}

// unprinted is a handler that leaves out the printed lines.
type unprinted struct{ slog.Handler }

// Handle passes the other lines on.
func (h unprinted) Handle(ctx context.Context, r slog.Record) error {
	if slices.Contains(printed, r.Message) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps leaving them out.
func (h unprinted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return unprinted{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps leaving them out.
func (h unprinted) WithGroup(name string) slog.Handler { return unprinted{h.Handler.WithGroup(name)} }
