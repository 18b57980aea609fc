//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// TestMain runs the program itself when a test starts this binary as such.
func TestMain(m *testing.M) {
	if os.Getenv("ENGINES_TEST_PROGRAM") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func opened(t *testing.T, state string) machine {
	t.Helper()
	m, err := openMachine(state, os.Getenv("DBQ_ENGINES"))
	check.OK(t, err)
	return m
}

// engines are the same for each state directory.
var engines = sync.OnceValue(func() []string {
	m, _ := openMachine("", os.Getenv("DBQ_ENGINES"))
	return m.engines()
})

// found is a server of the first PostgreSQL that is here, or the first in a tree. Other engines start later. Its state
// directory is the test's own, and does not exist yet; all have the same base name.
func found(t *testing.T, inTree bool) *server {
	t.Helper()
	m := opened(t, filepath.Join(t.TempDir(), "servers"))
	for path := filepath.Dir(m.state); path != "/"; path = filepath.Dir(path) { // the server's user must reach its data
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(path, info.Mode().Perm()|0o001); err != nil {
				t.Skipf("other users cannot reach %s", path)
			}
		}
	}
	for _, name := range engines() {
		if s, err := m.server(name); err == nil && s.kind == "postgres" && (s.tree != "" || !inTree) {
			t.Cleanup(func() {
				do(t, s, "stop")
				nothingLeft(t, s)
			})
			return s
		}
	}
	t.Skipf("no PostgreSQL is here (in a tree: %t)", inTree)
	return nil
}

// do runs a command in the state directory of a server.
func do(t *testing.T, s *server, args ...string) {
	t.Helper()
	if err := s.machine.run(args); err != nil {
		t.Errorf("%s: %v", args, err)
	}
}

// nothingLeft fails when a server, its data or its files are there.
func nothingLeft(t *testing.T, s *server) {
	t.Helper()
	if pids := s.processes(); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	for _, path := range []string{s.dir(), s.dir() + unfinished, s.machine.state} {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
}

func TestServerLifecycle(t *testing.T) {
	t.Parallel()
	s := found(t, false)
	var port string
	for _, command := range []string{"start", "kill", "start", "restart", "start"} {
		do(t, s, command, s.name)
		if runs := s.pid() != 0 && s.accepts(); runs == (command == "kill") {
			t.Fatalf("after %s the server runs: %t", command, runs)
		}
		if port != "" && port != s.port("port") {
			t.Fatalf("after %s the port is another one", command)
		}
		port = s.port("port")
	}
}

// TestStopAfterKilledStart kills the program at various moments of a start: stop finds everything nevertheless.
func TestStopAfterKilledStart(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{10, 50, 150, 400, 1000} {
		t.Run(fmt.Sprint(after*time.Millisecond), func(t *testing.T) {
			t.Parallel()
			s := found(t, false)
			program := exec.Command(os.Args[0], "start", s.name)
			program.Env = append(os.Environ(), "ENGINES_TEST_PROGRAM=1", "DBQ_ENGINES_STATE="+s.machine.state)
			check.OK(t, program.Start())
			time.Sleep(after * time.Millisecond)
			_ = program.Process.Kill()
			_ = program.Wait()
		})
	}
}

func TestProcessOfAnotherServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := found(t, false)
	check.OK(t, s.prepare())
	other := exec.Command("sleep", "60")
	check.OK(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	check.OK(t, os.WriteFile(s.pidFile(), fmt.Append(nil, other.Process.Pid), 0o644))
	if err := s.machine.run([]string{"kill", s.name}); err == nil {
		t.Error("killed a process that is not the server")
	}
	do(t, s, "stop")
	if !exists(fmt.Sprintf("/proc/%d/exe", other.Process.Pid)) {
		t.Error("the other process has ended")
	}
}

func TestStateDirectoriesOfOneNameAreTwoSets(t *testing.T) {
	t.Parallel()
	one, other := found(t, true), found(t, true)
	do(t, one, "start", one.name)
	do(t, other, "start", other.name)
	do(t, one, "stop")
	nothingLeft(t, one)
	if other.pid() == 0 || !other.accepts() {
		t.Error("stop ended the server of another state directory")
	}
}

func TestStateDirectoryByAnotherPathIsTheSameSet(t *testing.T) {
	t.Parallel()
	s := found(t, true)
	parent, link := filepath.Dir(s.machine.state), filepath.Join(t.TempDir(), "link")
	check.OK(t, os.Symlink(parent, link))
	for _, state := range []string{parent + "//servers/", parent + "/other/../servers", link + "/servers"} {
		again, err := opened(t, state).server(s.name)
		if err != nil || again.dir() != s.dir() {
			t.Errorf("%s has the data in %s (%v), want %s", state, again.dir(), err, s.dir())
		}
	}
}

// TestLongNameOfStateDirectory: a socket's path has at most 107 bytes.
func TestLongNameOfStateDirectory(t *testing.T) {
	t.Parallel()
	m := opened(t, "/tmp/[servers] of "+strings.Repeat("a long name ", 15))
	s := &server{programs: programs{tree: "/tree"}, machine: m, name: "groupreplication1"}
	if path := s.data() + "/server.sock"; len(path) > 107 || strings.ContainsAny(path, "[] ") {
		t.Errorf("%s has %d bytes", path, len(path))
	}
}

func TestStopFindsServersOfRemovedStateDirectory(t *testing.T) {
	t.Parallel()
	s := found(t, true)
	do(t, s, "start", s.name)
	check.OK(t, os.RemoveAll(s.machine.state))
	do(t, s, "stop")
	nothingLeft(t, s)
}

func TestStopWithoutServersMakesNothing(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "missing")
	if err := opened(t, filepath.Join(parent, "servers")).run([]string{"stop"}); err != nil || exists(parent) {
		t.Errorf("stop: %v; made the directory: %t", err, exists(parent))
	}
}

func TestStateDirectoryOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make one")
	}
	m := opened(t, t.TempDir())
	check.OK(t, os.Chown(m.state, 1, 1))
	for _, command := range []string{"start postgres18", "restart postgres18", "stop"} {
		if err := m.run(strings.Fields(command)); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestStartsAtTheSameTimeStartOneServer(t *testing.T) {
	t.Parallel()
	s := found(t, false)
	ended := make(chan error)
	for range 3 {
		go func() { ended <- s.machine.run([]string{"start", s.name}) }()
	}
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if s.pid() == 0 || !s.accepts() {
		t.Error("the server does not run")
	}
}

func TestEachPortIsChosenOnce(t *testing.T) {
	t.Parallel()
	servers := map[string]string{}
	for range 2 {
		s := &server{machine: opened(t, t.TempDir()), name: "postgres18"}
		for i := range 200 {
			what := fmt.Sprintf("%s %d", s.machine.state, i)
			port := s.port(strconv.Itoa(i))
			if other := servers[port]; other != "" {
				t.Errorf("%s and %s have port %s", other, what, port)
			}
			servers[port] = what
		}
		t.Cleanup(func() { s.machine.forget(s) })
	}
}

// TestTreeInUseIsFound: trees.sh replaces no tree in which a server runs, by whatever path it knows the tree.
func TestTreeInUseIsFound(t *testing.T) {
	t.Parallel()
	s := found(t, true)
	link := filepath.Join(t.TempDir(), "tree")
	check.OK(t, os.Symlink(s.tree, link))
	process := s.command(t.Context(), "/usr/bin/sleep", "60")
	check.OK(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	for _, tree := range []string{s.tree, s.tree + "/", link} {
		if out, err := exec.Command("bash", "-c", `. ./lib.sh && used root "$0"`, tree).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", tree, err, out)
		}
	}
	if err := exec.Command("bash", "-c", `. ./lib.sh && used root "$0"`, t.TempDir()).Run(); err == nil {
		t.Error("a directory in which nothing runs is in use")
	}
}
