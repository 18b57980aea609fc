//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 90 * time.Second // of a server that starts, or a node that joins
	stopLimit  = 20 * time.Second // of a clean stop; then it is killed
	killLimit  = 10 * time.Second // of a process that got SIGKILL
)

// A server is one process that the tests talk to: an engine, a pooler, or a node of a cluster.
type server struct {
	programs
	machine machine
	name    string
	kind    string        // postgres, pgbouncer, mysql or mariadb
	ended   chan struct{} // closed when the process that this run of the program started has ended
}

func (m machine) server(name string) (*server, error) {
	p, err := m.find(name)
	kind, _ := splitName(name)
	switch kind {
	case "postgresha":
		kind = "postgres"
	case "galera":
		kind = "mariadb"
	case "groupreplication", "multiprimary":
		kind = "mysql"
	}
	return &server{programs: p, machine: m, name: name, kind: kind}, err
}

// data is the server's data directory as the server sees it; dir is the same directory as this program sees it.
func (s *server) data() string {
	if s.tree == "" {
		return filepath.Join(s.machine.state, "data", s.name)
	}
	return filepath.Join(s.machine.inTree, s.name)
}

func (s *server) dir() string { return s.tree + s.data() }

func (s *server) path(file string) string { return filepath.Join(s.dir(), file) }

// dsn is the server's DSN for the tests; others are nodes to try when it is gone.
func (s *server) dsn(others ...*server) string {
	hosts := addresses(append([]*server{s}, others...), "port")
	if s.kind == "mysql" || s.kind == "mariadb" {
		return s.kind + "://root@" + hosts + "/mysql"
	}
	return "postgres://postgres@" + hosts + "/postgres?sslmode=disable"
}

func (s *server) exports(as string) string {
	return fmt.Sprintf("export %s='%s'\n", variable(as), s.dsn())
}

// start starts an engine unless it runs.
func (s *server) start() error {
	if err := s.prepare(); err != nil || s.pid() != 0 {
		return err
	}
	switch s.kind {
	case "postgres":
		return s.startPostgres()
	case "pgbouncer":
		return s.startPgbouncer()
	}
	return s.startMySQL()
}

// prepare chooses the port before anything else is done: stop looks for servers that have one.
func (s *server) prepare() error {
	err := s.machine.prepare()
	s.port("port")
	return err
}

// setting is DBQ_ENGINES_FSYNC.
func setting(byDefault string) string {
	if v := os.Getenv("DBQ_ENGINES_FSYNC"); v != "" {
		return v
	}
	return byDefault
}

// makeData makes the data directory unless there is one. It is renamed when it is complete: an interrupted run leaves
// none that is half made. What fills it works in it, so that stop finds that too.
func (s *server) makeData(fill func(data string) error) error {
	if exists(s.dir()) {
		return nil
	}
	half := s.dir() + unfinished
	return steps(
		func() error { return os.RemoveAll(half) },
		func() error { return os.MkdirAll(filepath.Dir(half), 0o755) },
		func() error { return os.Mkdir(half, 0o700) },
		func() error { return s.own(half) },
		func() error { return fill(s.data() + unfinished) },
		func() error { return os.Rename(half, s.dir()) })
}

const unfinished = ".new"

// own gives a file to the server's user.
func (s *server) own(path string) error {
	if s.uid == 0 {
		return nil
	}
	return os.Chown(path, int(s.uid), int(s.gid))
}

// launch starts the server apart from this program, with its output in server.log. It does not wait until it is ready.
func (s *server) launch(cmd *exec.Cmd) error {
	log, err := os.OpenFile(s.path("server.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr.Setsid = log, log, true
	if cmd.Dir = s.dir(); cmd.SysProcAttr.Chroot != "" {
		cmd.Dir = s.data()
	}
	if err := steps(func() error { return s.own(log.Name()) }, cmd.Start); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		_ = cmd.Wait() // the log has the reason
		close(ended)
	}()
	return os.WriteFile(s.pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644)
}

// await waits until the server is ready. The error has the end of its log.
func (s *server) await(what string, ready func() bool) error {
	problem := ""
	if !wait(startLimit, func() bool {
		select {
		case <-s.ended: // nil when another run of this program started it
			problem = "ended before it was " + what
			return true
		default:
			return ready()
		}
	}) {
		problem = fmt.Sprintf("is not %s within %s", what, startLimit)
	}
	if problem == "" {
		return nil
	}
	content, _ := os.ReadFile(s.path("server.log"))
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	lines = lines[max(0, len(lines)-25):]
	return fmt.Errorf("%s %s; the end of its log:\n%s", s.name, problem, strings.Join(lines, "\n"))
}

// wait polls until ok, for at most the given time.
func wait(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// accepts reports whether the server takes connections.
func (s *server) accepts() bool {
	conn, err := net.DialTimeout("tcp", s.address("port"), time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func (s *server) pidFile() string { return filepath.Join(s.machine.state, s.name+".pid") }

// pid is the server's process, or 0. A process of that number that works elsewhere is not the server.
func (s *server) pid() int {
	content, _ := os.ReadFile(s.pidFile())
	pid, _ := strconv.Atoi(string(content))
	if !alive(pid) {
		return 0
	}
	if exists("/proc/self") && !s.worksIn(fmt.Sprintf("/proc/%d/cwd", pid)) {
		return 0
	}
	return pid
}

// alive reports whether there is a process of this number, if only one that has ended and whose parent has not noticed.
func alive(pid int) bool { return pid != 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// worksIn reports whether the link to a process's directory leads to the data.
func (s *server) worksIn(link string) bool {
	directory, err := os.Readlink(link)
	parent, noParent := filepath.EvalSymlinks(filepath.Dir(s.dir()))
	return err == nil && noParent == nil && strings.TrimSuffix(directory, unfinished) == filepath.Join(parent, s.name)
}

// processes are all that work in the data directory, also a server's that never came up. Empty where there is no /proc.
func (s *server) processes() []int {
	var found []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if s.worksIn(link) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			found = append(found, pid)
		}
	}
	return found
}

// gone reports whether the server and its children have ended. They would keep the next start from the data.
func (s *server) gone() bool { return s.pid() == 0 && len(s.processes()) == 0 }

// signal signals the server, or what works in its directory when its process is not known: this program may have been
// killed before it wrote the number down.
func (s *server) signal(sig syscall.Signal) {
	pids := []int{s.pid()}
	if pids[0] == 0 {
		pids = s.processes()
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig) // it may end by itself meanwhile
	}
}

// stopSignal asks for a quick, clean end. The data of a cluster is thrown away: nothing there needs to end cleanly.
func (s *server) stopSignal() syscall.Signal {
	switch {
	case slices.ContainsFunc(clusterNames, func(c string) bool { return isNode(s.name, c) }):
		return syscall.SIGKILL
	case s.kind == "postgres":
		return syscall.SIGINT // fast shutdown
	}
	return syscall.SIGTERM
}

// halt ends the server if it runs, by SIGKILL when it does not end in time.
func (s *server) halt(sig syscall.Signal) error {
	pid := s.pid()
	s.signal(sig)
	if !wait(stopLimit, s.gone) {
		say("%s does not stop: killing it", s.name)
		s.signal(syscall.SIGKILL)
		if !wait(killLimit, s.gone) {
			return fmt.Errorf("%s still has processes: %v", s.name, s.processes())
		}
	}
	wait(killLimit, func() bool { return !alive(pid) }) // PostgreSQL would take it for a server that runs
	return nil
}

// crash kills the server.
func (s *server) crash() error {
	if s.pid() == 0 {
		return fmt.Errorf("%s does not run", s.name)
	}
	return s.halt(syscall.SIGKILL)
}

// remove ends the server and removes its data.
func (s *server) remove() error {
	return steps(
		func() error { return s.halt(s.stopSignal()) },
		func() error { return errors.Join(os.RemoveAll(s.dir()), os.RemoveAll(s.dir()+unfinished)) },
		func() error { s.machine.forget(s); return nil })
}
