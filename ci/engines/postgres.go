//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func (s *server) startPostgres() error {
	fsync := setting("off")
	options := []string{"listen_addresses=" + address, "unix_socket_directories=", "max_connections=200",
		"dynamic_shared_memory_type=mmap", "fsync=" + fsync} // mmap: a tree has no /dev/shm
	if fsync == "on" {
		options = append(options, "shared_buffers=1GB", "max_wal_size=4GB")
	}
	return steps(s.initdb, func() error { return s.servePostgres(options...) })
}

func (s *server) initdb() error {
	return s.makeData(func(data string) error {
		_, err := s.runIn(data, "initdb", "-D", data, "--no-sync", "-A", "trust", "-U", "postgres", "--no-locale",
			"-E", "UTF8")
		return err
	})
}

// servePostgres starts the server on its data, and waits until it serves. Options are NAME=VALUE.
func (s *server) servePostgres(options ...string) error {
	args := []string{"-D", s.data(), "-p", s.port("port")}
	for _, o := range options {
		args = append(args, "-c", o)
	}
	if err := s.launch(s.command(context.Background(), "postgres", args...)); err != nil {
		return err
	}
	return s.await("ready", func() bool { // as pg_ctl does: line 1 is the process, line 8 its state
		content, _ := os.ReadFile(s.path("postmaster.pid"))
		lines := strings.Split(string(content), "\n")
		return len(lines) > 7 && lines[0] == strconv.Itoa(s.pid()) && strings.TrimSpace(lines[7]) == "ready"
	})
}

// startPgbouncer starts a pooler and the server behind it. It has fewer connections to the server than the suite has
// clients at once, so that they do share sessions.
func (s *server) startPgbouncer() error {
	behind, err := s.machine.server("postgres18")
	if err != nil {
		return err
	}
	return steps(
		behind.start,
		func() error { return s.makeData(func(string) error { return nil }) },
		func() error {
			return os.WriteFile(s.path("pgbouncer.ini"), fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = %[1]s
listen_port = %[3]s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 30
max_client_conn = 1000
log_connections = 0
log_disconnections = 0
log_stats = 0
`, address, behind.port("port"), s.port("port")), 0o644)
		},
		func() error {
			return s.launch(s.command(context.Background(), "pgbouncer", filepath.Join(s.data(), "pgbouncer.ini")))
		},
		func() error { return s.await("ready", s.accepts) })
}
