package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/sample"
)

// demoDatabase is the name of the database of dbq serve --demo.
const demoDatabase = "demo"

// runDemo serves sample data in a temporary directory, which it removes at the end.
func (s *server) runDemo(ctx context.Context) (err error) {
	if s.configFile != "" || len(s.dsns) > 0 || s.dsnFile != "" || s.prefix != "" || s.schema != "" ||
		s.strategy != "" || s.changed("tokens") || s.changed("tls-cert") || s.changed("tls-key") {
		return usagef("--demo serves a database of its own on this machine: it goes with --listen and --drain only")
	}
	dir, err := os.MkdirTemp("", "dbq-serve-demo-")
	if err != nil {
		return fmt.Errorf("cannot create a temporary directory: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(dir); e != nil {
			err = errors.Join(err, failedf("the files of the demo could not be removed: %w", e))
		}
	}()
	dsn := "sqlite:" + filepath.Join(dir, "demo.db") + "?synchronous=normal"
	if err := fillDemo(ctx, dsn); err != nil {
		return err
	}
	return s.run(ctx, serveConfig{
		Listen: s.flags.Listen, Drain: s.flags.Drain, Quiet: true,
		Databases: map[string]*databaseConfig{demoDatabase: {DSN: dsn}},
	})
}

// fillDemo creates the demo's database.
func fillDemo(ctx context.Context, dsn string) error {
	c, err := dbq.Open(ctx, dsn, dbq.WithMigrate(), dbq.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return errors.Join(sample.Fill(ctx, c), c.Close())
}

// workDemo works on the demo's tasks, and returns a function that ends that.
func (s *server) workDemo(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := sample.Run(ctx, s.clients[demoDatabase]); err != nil {
			s.logger.Error("serve: the demo's workers ended", "err", err)
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(demoEnd):
			s.logger.Warn("serve: the demo's workers have not ended in time")
		}
	}
}

// demoEnd is how long the demo's workers may take to end: longer than they need.
const demoEnd = 10 * time.Second
