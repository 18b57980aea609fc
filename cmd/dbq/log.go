package main

import (
	"log/slog"
)

// newLogger reports what a person at a worker should know: lost leases, a database that is away.
func newLogger(a *app) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
