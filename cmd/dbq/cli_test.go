//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/maintenance"
)

// runMain makes the test binary dbq itself, for the tests that need a process, and for the demo's workers.
const runMain = "DBQ_TEST_RUN_MAIN"

// logEverything makes such a process log from the lowest level.
const logEverything = "DBQ_TEST_LOG_EVERYTHING"

// cleanEvery is how often such a process cleans.
const cleanEvery = "DBQ_TEST_CLEAN_EVERY"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" && !slices.Contains(os.Args, "-test.fuzzworker") {
		if os.Getenv(logEverything) != "" {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			context.AfterFunc(ctx, stop)
			s := ofProcess()
			s.chatter = slog.LevelInfo - slog.LevelDebug
			os.Exit(run(ctx, s, os.Args[1:]))
		}
		if every, err := time.ParseDuration(os.Getenv(cleanEvery)); err == nil {
			maintenance.CleanEvery = every
		}
		main()
	}
	// A process that a test's own dbq starts, such as the demo's workers, is dbq too, and does not run these tests
	// again.
	if err := os.Setenv(runMain, "1"); err != nil {
		panic(err)
	}
	code := m.Run()
	removePackages()
	if code == 0 {
		if left := leftRunning(); left != "" {
			fmt.Fprintf(os.Stderr, "a command has ended, and left this running:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leftRunning returns the goroutines that commands have left behind in this process, after the last test.
func leftRunning() (left string) {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
		all = slices.DeleteFunc(all[1:], func(stack string) bool { // the first one is this goroutine
			return !strings.Contains(stack, "github.com/dbq-go/dbq")
		})
		if left = strings.Join(all, "\n\n"); left == "" || time.Now().After(end) {
			return left
		}
	}
}

// patience is far more than anything here takes.
const patience = check.Patience

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

// run runs dbq with an empty stdin, in the test's process.
func (u *user) run(args ...string) outcome { return u.feed("", args...) }

// feed is run with a stdin.
func (u *user) feed(stdin string, args ...string) outcome {
	u.t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := u.limited()
	defer cancel()
	code := run(ctx, u.around(strings.NewReader(stdin), &out, &errs), u.with(args))
	return outcome{u.t, args, out.String(), errs.String(), code}
}

func (u *user) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), max(u.patience, patience))
}

// with returns the arguments after the user's flags.
func (u *user) with(args []string) []string { return append(slices.Clip(u.flags), args...) }

// around returns the surroundings of a command that the user runs.
func (u *user) around(in io.Reader, out, errs io.Writer) surroundings {
	env := slices.Clone(u.env)
	return surroundings{in: in, out: out, err: errs, dir: u.dir,
		environ: func() []string { return slices.Clone(env) },
		getenv: func(name string) string {
			for _, kv := range slices.Backward(env) {
				if value, found := strings.CutPrefix(kv, name+"="); found {
					return value
				}
			}
			return ""
		},
	}
}

// exec runs dbq as a process, for what a process has of its own: its standard streams, its temporary files, its exit.
func (u *user) exec(args ...string) outcome {
	u.t.Helper()
	var out, errs bytes.Buffer
	cmd := u.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		u.t.Fatalf("dbq %q: %v", args, err)
	}
	return outcome{u.t, args, out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// command is a process of dbq.
func (u *user) command(args ...string) *exec.Cmd {
	ctx, cancel := u.limited()
	u.t.Cleanup(cancel)
	self, err := os.Executable()
	if err != nil {
		u.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, u.with(args)...)
	cmd.Dir, cmd.Env = u.dir, u.env
	return cmd
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

// one wants success and a single JSON document.
func (o outcome) one() map[string]any {
	o.t.Helper()
	o.ok()
	all := o.jsonLines()
	if len(all) != 1 {
		o.t.Fatalf("dbq %q: %d JSON documents, want 1; stderr: %s", o.args, len(all), o.err)
	}
	return all[0]
}

// task is a task as show --json prints it.
func (u *user) task(id string) map[string]any {
	u.t.Helper()
	return u.run("show", id, "--json").one()
}

// background is a command that runs.
type background struct {
	u    *user
	args []string
	cmd  *exec.Cmd // of a process
	stop func()    // ends it as SIGTERM does
	done chan struct{}
	code int // when it is done
	out  *watched
	err  *watched
}

// start runs dbq in the background, in the test's process, and ends it with the test.
func (u *user) start(args ...string) *background {
	ctx, cancel := u.limited()
	b := &background{u: u, args: args, stop: cancel, done: make(chan struct{}), out: newWatched(), err: newWatched()}
	in, all := u.around(strings.NewReader(""), b.out, b.err), u.with(args)
	go func() {
		defer close(b.done)
		b.code = run(ctx, in, all)
	}()
	u.t.Cleanup(func() {
		cancel()
		<-b.done
	})
	return b
}

// startProcess is start for a process that gets signals.
func (u *user) startProcess(args ...string) *background {
	u.t.Helper()
	return u.spawn(u.command(args...))
}

// spawn starts a process in the background, and kills it with the test.
func (u *user) spawn(cmd *exec.Cmd) *background {
	u.t.Helper()
	b := &background{u: u, args: cmd.Args[1:], cmd: cmd, done: make(chan struct{}), out: newWatched(), err: newWatched()}
	b.stop = func() { b.signal(syscall.SIGTERM) }
	cmd.Stdout, cmd.Stderr = b.out, b.err
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		_ = cmd.Wait()
		b.code = cmd.ProcessState.ExitCode()
	}()
	u.t.Cleanup(b.kill)
	return b
}

// signal sends a signal to a process.
func (b *background) signal(s os.Signal) {
	b.u.t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		b.u.t.Fatal(err)
	}
}

// kill kills a process, if it has not ended.
func (b *background) kill() {
	_ = b.cmd.Process.Kill()
	<-b.done
}

// stops ends the command, which then succeeds.
func (b *background) stops() {
	b.u.t.Helper()
	b.stop()
	b.wait().ok()
}

// wait waits for the end and gives what it left.
func (b *background) wait() outcome {
	b.u.t.Helper()
	<-b.done // patience ends it
	return outcome{b.u.t, b.args, b.out.String(), b.err.String(), b.code}
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
