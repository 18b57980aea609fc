//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// A program that must stop gets SIGTERM, and can clean up. It has not completed, although it exits with 0.
func TestAStoppedProgramCanCleanUp(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	b := u.start(sh(`trap 'echo clean > cleaned; exit 0' TERM; `+hang, "--drain", "50ms", "--grace", "1m")...)
	pids := u.hangs()
	b.stops()
	u.gone(pids)
	if task := u.task(id); u.read("cleaned") != "clean" || task["state"] != "CREATED" || task["attempt"] != 0.0 {
		t.Errorf("it cleaned up: %q; its task: %v", u.read("cleaned"), task)
	}
}

// What ignores SIGTERM is killed: the program after the grace, and what it started together with it.
func TestWhatIgnoresSIGTERMIsKilled(t *testing.T) {
	for name, c := range map[string]struct{ script, grace string }{
		"the program": {`trap '' TERM; ` + hang, "50ms"},
		"its child":   {strings.Replace(hang, "sleep 1000 &", "(trap '' TERM; exec sleep 1000) &", 1), "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			u.run("enqueue", "-q", "q").id()
			b := u.start(sh(c.script, "--drain", "50ms", "--grace", c.grace)...)
			pids := u.hangs()
			b.stops()
			u.gone(pids)
		})
	}
}

// zombies counts the children of a process that have ended and were not waited for.
func zombies(t *testing.T, parent int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	check.OK(t, err)
	for _, path := range stats {
		text, _ := os.ReadFile(path) // it may be gone
		_, after, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(after); len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(parent) {
			n++
		}
	}
	return n
}

// The first process of a container reaps what programs leave behind, and still sees how they and dbq itself end.
func TestFirstProcessReapsOrphans(t *testing.T) {
	u := newUser(t)
	var ids []string
	for range 5 {
		ids = append(ids, u.run("enqueue", "-q", "q").id())
	}
	cmd := u.command(sh(`(sleep 0.01 &); echo $PPID > ppid; exit 0`)...)
	if !inPIDNamespace(cmd) {
		t.Skip("only root on Linux can start a process as the first one of a container")
	}
	b := u.spawn(cmd)
	for _, id := range ids {
		check.Eventually(t, "a program has completed", func() bool { return u.task(id)["state"] == "COMPLETED" })
	}
	if u.read("ppid") == "1" {
		t.Error("the programs' parent is the first process, which cannot wait for all")
	}
	check.Eventually(t, "no zombie is left", func() bool { return zombies(t, b.cmd.Process.Pid) == 0 })
	b.signal(syscall.SIGTERM)
	b.wait().ok()
	failed := u.command(sh("exit 1", "--until-empty", "--quiet")...)
	u.run("enqueue", "-q", "q", "--max-attempts", "1").id()
	inPIDNamespace(failed)
	u.spawn(failed).wait().fails(exitFailed, "1 task failed")
}
