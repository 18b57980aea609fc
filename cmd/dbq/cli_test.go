//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/maintenance"
)

// runMain makes the test binary dbq itself, so that tests drive a real process, and the demo's workers are such too.
const runMain = "DBQ_TEST_RUN_MAIN"

// logEverything makes such a process log from the lowest level.
const logEverything = "DBQ_TEST_LOG_EVERYTHING"

// cleanEvery is how often such a process cleans.
const cleanEvery = "DBQ_TEST_CLEAN_EVERY"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" && !slices.Contains(os.Args, "-test.fuzzworker") {
		if os.Getenv(logEverything) != "" {
			logLevel = func(slog.Level) slog.Level { return slog.LevelDebug }
		}
		if every, err := time.ParseDuration(os.Getenv(cleanEvery)); err == nil {
			maintenance.CleanEvery = every
		}
		main()
	}
	// A process that a test's own dbq starts, such as the demo's workers, is dbq too, and not these tests once more.
	if err := os.Setenv(runMain, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// patience is far more than anything here takes.
const patience = 60 * time.Second

// user sits at a shell in a directory of their own.
type user struct {
	t   *testing.T
	dir string
	env []string
	// flags go before each verb.
	flags []string
	// patience is how long a command may run, if it is longer than the constant.
	patience time.Duration
}

func newUser(t *testing.T) *user {
	t.Parallel()
	u := &user{t: t, dir: t.TempDir()}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DBQ_") {
			u.env = append(u.env, kv)
		}
	}
	u.env = append(u.env, runMain+"=1", "TMPDIR="+t.TempDir())
	if os.Getenv("GORACE") == "" {
		u.env = append(u.env, "GORACE=atexit_sleep_ms=0") // else each process sleeps a second at its end under -race
	}
	return u
}

// outcome is the result of a command line.
type outcome struct {
	t        *testing.T
	args     []string
	out, err string
	code     int
}

func (u *user) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), max(u.patience, patience))
	u.t.Cleanup(cancel)
	self, err := os.Executable()
	if err != nil {
		u.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, append(slices.Clip(u.flags), args...)...)
	cmd.Dir, cmd.Env = u.dir, u.env
	return cmd
}

// run runs dbq with an empty stdin.
func (u *user) run(args ...string) outcome { return u.feed("", args...) }

// feed runs dbq with a stdin.
func (u *user) feed(stdin string, args ...string) outcome {
	u.t.Helper()
	var out, errs bytes.Buffer
	cmd := u.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		u.t.Fatalf("dbq %q: %v", args, err)
	}
	return outcome{u.t, args, out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// ok wants success, and gives stdout.
func (o outcome) ok() string {
	o.t.Helper()
	if o.code != 0 {
		o.t.Fatalf("dbq %q: exit code %d, stderr: %s", o.args, o.code, o.err)
	}
	return o.out
}

// id wants success and a task's id.
func (o outcome) id() string {
	o.t.Helper()
	id := strings.TrimSpace(o.ok())
	if _, err := parseID(id); err != nil {
		o.t.Fatalf("dbq %q: %v", o.args, err)
	}
	return id
}

// fails wants an exit code and one line on stderr with each of the texts.
func (o outcome) fails(code int, texts ...string) outcome {
	o.t.Helper()
	if o.code != code {
		o.t.Errorf("dbq %q: exit code %d, want %d; stderr: %s", o.args, o.code, code, o.err)
	}
	if !strings.HasPrefix(o.err, "dbq: ") || strings.Count(o.err, "\n") != 1 || !strings.HasSuffix(o.err, "\n") {
		o.t.Errorf("dbq %q: stderr is not one line that begins with dbq: %q", o.args, o.err)
	}
	for _, text := range texts {
		if !strings.Contains(o.err, text) {
			o.t.Errorf("dbq %q: stderr %q does not say %q", o.args, o.err, text)
		}
	}
	return o
}

// has wants success and stdout with each of the texts.
func (o outcome) has(texts ...string) outcome {
	o.t.Helper()
	o.ok()
	for _, text := range texts {
		if !strings.Contains(o.out, text) {
			o.t.Errorf("dbq %q: stdout does not say %q: %s", o.args, text, o.out)
		}
	}
	return o
}

// jsonLines reads stdout as JSON lines.
func (o outcome) jsonLines() []map[string]any {
	o.t.Helper()
	var out []map[string]any
	dec := json.NewDecoder(strings.NewReader(o.out))
	for {
		var v map[string]any
		err := dec.Decode(&v)
		if err == io.EOF {
			return out
		}
		if err != nil {
			o.t.Fatalf("dbq %q: stdout is not JSON: %v: %s", o.args, err, o.out)
		}
		out = append(out, v)
	}
}

// one wants a single JSON document.
func (o outcome) one() map[string]any {
	o.t.Helper()
	all := o.jsonLines()
	if len(all) != 1 {
		o.t.Fatalf("dbq %q: %d JSON documents, want 1; stderr: %s", o.args, len(all), o.err)
	}
	return all[0]
}

// task is a task as show --json prints it.
func (u *user) task(id string) map[string]any {
	u.t.Helper()
	o := u.run("show", id, "--json")
	o.ok()
	return o.one()
}

// background is a dbq that runs.
type background struct {
	u    *user
	cmd  *exec.Cmd
	done chan struct{}
	out  *watched
	err  *watched
}

// start runs dbq in the background and ends it with the test.
func (u *user) start(args ...string) *background {
	u.t.Helper()
	b := &background{u: u, cmd: u.command(args...), done: make(chan struct{}), out: newWatched(), err: newWatched()}
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.err
	if err := b.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	go func() {
		_ = b.cmd.Wait() // its exit code is asked for where it matters
		close(b.done)
	}()
	u.t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.done
	})
	return b
}

// signal sends a signal.
func (b *background) signal(s os.Signal) {
	b.u.t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		b.u.t.Fatal(err)
	}
}

// wait waits for the end and gives what it left.
func (b *background) wait() outcome {
	b.u.t.Helper()
	<-b.done // patience ends it
	return outcome{b.u.t, b.cmd.Args[1:], b.out.String(), b.err.String(), b.cmd.ProcessState.ExitCode()}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// file is the path of a file in the user's directory.
func (u *user) file(name string) string { return filepath.Join(u.dir, name) }

// read is a file's text, "" while it is not there.
func (u *user) read(name string) string {
	b, err := os.ReadFile(u.file(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (u *user) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(u.file(name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
