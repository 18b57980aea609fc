//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain runs the program itself when a test starts this binary as such.
func TestMain(m *testing.M) {
	if os.Getenv("ENGINES_TEST_PROGRAM") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// found is an engine that is here, whose servers start soonest first.
func found(t *testing.T) (machine, string) {
	t.Helper()
	t.Setenv("DBQ_ENGINES_STATE", filepath.Join(t.TempDir(), fmt.Sprintf("engines-test-%d", os.Getpid())))
	m, err := openMachine()
	if err != nil {
		t.Fatal(err)
	}
	for path := m.state; path != "/"; path = filepath.Dir(path) { // the server's user must reach its data
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(path, info.Mode().Perm()|0o001); err != nil {
				t.Skipf("other users cannot reach %s", path)
			}
		}
	}
	for _, name := range m.engines() {
		if strings.HasPrefix(name, "postgres") {
			return m, name
		}
	}
	t.Skip("no PostgreSQL is here")
	return m, ""
}

// nothingLeft fails when a server, its data or its files are there.
func nothingLeft(t *testing.T, m machine, s *server) {
	t.Helper()
	if pids := s.processes(); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	for _, path := range []string{s.dir(), s.dir() + unfinished, m.state} {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
}

func TestServerLifecycle(t *testing.T) {
	m, name := found(t)
	s, err := m.server(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run([]string{"stop"}); err != nil {
			t.Error(err)
		}
		nothingLeft(t, m, s)
	})
	var port string
	for _, args := range []string{"start " + name, "kill " + name, "start " + name, "restart " + name, "start " + name} {
		if err := run(strings.Fields(args)); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if runs := s.pid() != 0 && s.accepts(); runs == strings.HasPrefix(args, "kill") {
			t.Fatalf("after %s the server runs: %t", args, runs)
		}
		if port != "" && port != s.port("port") {
			t.Fatalf("after %s the port is another one", args)
		}
		port = s.port("port")
	}
}

// TestStopAfterKilledStart kills the program at various moments of a start: stop finds everything nevertheless.
func TestStopAfterKilledStart(t *testing.T) {
	for _, after := range []time.Duration{10, 50, 150, 400, 1000} {
		t.Run(fmt.Sprint(after*time.Millisecond), func(t *testing.T) {
			m, name := found(t)
			s, err := m.server(name)
			if err != nil {
				t.Fatal(err)
			}
			program := exec.Command(os.Args[0], "start", name)
			program.Env = append(os.Environ(), "ENGINES_TEST_PROGRAM=1")
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after * time.Millisecond)
			_ = program.Process.Kill()
			_ = program.Wait()
			if err := run([]string{"stop"}); err != nil {
				t.Error(err)
			}
			nothingLeft(t, m, s)
		})
	}
}

func TestProcessOfAnotherServerIsLeftAlone(t *testing.T) {
	m, name := found(t)
	s, err := m.server(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	if err := os.WriteFile(s.pidFile(), fmt.Append(nil, other.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"kill", name}); err == nil {
		t.Error("killed a process that is not the server")
	}
	if err := run([]string{"stop"}); err != nil {
		t.Error(err)
	}
	if !exists(fmt.Sprintf("/proc/%d/exe", other.Process.Pid)) {
		t.Error("the other process has ended")
	}
}
