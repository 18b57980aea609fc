package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// pipeWait is how long a program's pipes may stay open after it ended, by processes that it left behind.
const pipeWait = time.Second

// programRunner is a worker.Handler that runs a program for each task.
type programRunner struct {
	a     *app
	argv  []string
	env   []string // of every program; a task's own is added
	quiet bool

	grace       time.Duration // from SIGTERM to SIGKILL
	maxAttempts int           // caps a task's own number, when it is not 0

	mu     sync.Mutex
	thread chan<- func() // which starts programs; nil after stop
	live   map[*exec.Cmd]bool
	failed map[uuid.UUID]bool // tasks whose last attempt here failed
	killed bool
}

// newProgramRunner makes a runner. The caller must stop it.
func newProgramRunner(a *app, argv, env []string, quiet bool) *programRunner {
	return &programRunner{a: a, argv: argv, env: env, quiet: quiet, thread: newThread(),
		live: map[*exec.Cmd]bool{}, failed: map[uuid.UUID]bool{}}
}

// HandleTask runs the program for one task.
func (p *programRunner) HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome {
	begin := time.Now()
	var out headBuffer
	var errs tailBuffer
	if p.maxAttempts > 0 {
		t.MaxAttempts = min(t.MaxAttempts, p.maxAttempts)
	}
	payload, err := payloadFile(t.Payload)
	if err != nil {
		return dbq.Failed(err)
	}
	defer closePayload(payload)
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Env = p.a.dir, append(slices.Clip(p.env), taskEnv(t)...)
	cmd.Stdin = payload
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = pipeWait
	ownGroup(cmd)
	stopped := false
	if err = p.start(cmd); err == nil {
		stopped, err = p.wait(ctx, cmd)
		p.forget(cmd)
	}
	if errors.Is(err, exec.ErrWaitDelay) { // it ended well, and left a process behind that keeps its stdout
		err = nil
	}
	p.stayIfKilled()
	var cause error
	if stopped {
		cause = context.Cause(ctx)
	}
	name, o := judge(cause, err, errs.String())
	p.record(t, name, o.Cause(), time.Since(begin))
	if o.Event() == state.Complete {
		o = o.WithResult(out.result())
	}
	return o
}

// wait waits for a program, and reports whether ctx ended before it. Then the program and its children get SIGTERM.
// Processes that have not ended with it or within the grace get SIGKILL.
func (p *programRunner) wait(ctx context.Context, cmd *exec.Cmd) (stopped bool, err error) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		if errors.Is(cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			return // a child keeps its stdout
		}
		stopped = true
		_ = terminateGroup(cmd) // it may have ended meanwhile
		select {
		case <-ended:
		case <-time.After(p.grace):
		}
		_ = killGroup(cmd)
	}()
	err = cmd.Wait()
	close(ended)
	<-done
	return stopped, err
}

// judge returns the outcome of an attempt, derived from how its program ended, and a name for it. cause is why it was
// stopped, or nil. A stopped program has not completed, whatever its exit code: many exit with 0 after SIGTERM.
func judge(cause, err error, stderr string) (name string, o dbq.Outcome) {
	var exit *exec.ExitError
	switch {
	case errors.Is(cause, worker.ErrTimeout):
		return "failed", dbq.Failed(fmt.Errorf("the program was stopped: %w", worker.ErrTimeout))
	case cause != nil:
		return "stopped", dbq.Failed(fmt.Errorf("the program was stopped: %w", cause))
	case err == nil:
		return "completed", dbq.Completed(nil)
	case errors.As(err, &exit):
		err = errors.New(exit.String())
		if stderr != "" {
			err = fmt.Errorf("%w: %s", err, stderr)
		}
		switch exit.ExitCode() {
		case exitPoison:
			return "poisoned", dbq.Poisoned(err)
		case exitPark:
			return "parked", dbq.Parked(err)
		}
	}
	return "failed", dbq.Failed(err)
}

func (p *programRunner) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thread == nil || p.killed {
		return errors.New("dbq is stopping")
	}
	started := make(chan error)
	p.thread <- func() { started <- cmd.Start() }
	err := <-started
	if err == nil {
		p.live[cmd] = true
	}
	return err
}

// stop prevents further programs from starting and, on Linux, ends the running ones.
func (p *programRunner) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.thread)
	p.thread = nil
}

func (p *programRunner) forget(cmd *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, cmd)
}

// killAll ends every program and prevents further ones from starting.
func (p *programRunner) killAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for cmd := range p.live {
		_ = killGroup(cmd) // it may have ended meanwhile
	}
}

// stayIfKilled never returns after killAll: the process is about to end, and must not record the killed programs as
// failed.
func (p *programRunner) stayIfKilled() {
	p.mu.Lock()
	killed := p.killed
	p.mu.Unlock()
	if killed {
		select {}
	}
}

// noteStopping explains the effect of the first signal.
func (p *programRunner) noteStopping(drain time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.live); n > 0 {
		p.a.note("stopping: %s can run for up to %s more; a second signal kills the running programs",
			plural(n, "program"), duration.Format(drain))
	}
}

// attemptView is an attempt's end as --json shows it.
type attemptView struct {
	TaskID    uuid.UUID `json:"task_id"`
	Queue     string    `json:"queue"`
	Kind      string    `json:"kind,omitempty"`
	Reference string    `json:"reference,omitempty"`
	Attempt   int       `json:"attempt"`
	Fence     int64     `json:"fence"`
	Outcome   string    `json:"outcome"`
	Error     string    `json:"error,omitempty"`
	Seconds   float64   `json:"seconds"`
}

func (p *programRunner) record(t dbq.Task, outcome string, err error, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch outcome {
	case "completed":
		delete(p.failed, t.ID)
	case "failed", "poisoned", "parked":
		p.failed[t.ID] = true
	}
	if p.quiet {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if p.a.json {
		// A closed stdout must not fail the task.
		_ = p.a.printJSON(attemptView{
			t.ID, t.Queue, t.Kind, t.Reference, t.Attempt, t.Fence, outcome, text, took.Seconds()})
		return
	}
	line := fmt.Sprintf("%s  %-9s  attempt %d of %d  %s", t.ID, outcome, t.Attempt, t.MaxAttempts, span(took))
	if text != "" {
		line += "  " + brief(text, 120)
	}
	p.a.note("%s", line)
}

// verdict returns the error of --until-empty if tasks failed here and did not succeed later.
func (p *programRunner) verdict() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.failed); n > 0 {
		return failedf("%s failed: see `dbq list --state error,poison`", plural(n, "task"))
	}
	return nil
}

// headBuffer keeps the beginning of a program's output, so endless output does not fill the memory. dbq cuts the
// result to its limit.
type headBuffer struct {
	kept  []byte
	total int
}

const headLimit = 64 << 10

func (b *headBuffer) Write(p []byte) (int, error) {
	b.total += len(p)
	b.kept = append(b.kept, p[:min(len(p), headLimit-len(b.kept))]...)
	return len(p), nil
}

// result is the output, or its begin and how long it was.
func (b *headBuffer) result() []byte {
	if b.total <= len(b.kept) {
		return b.kept
	}
	return bounds.CutNoted(b.kept, b.total)
}

// tailBuffer keeps the end of a program's output: the last lines of an error are the most useful.
type tailBuffer struct {
	kept []byte
	cut  bool
}

// tailLimit leaves room for the exit code within the limit of an error text.
const tailLimit = dbq.MaxResult - 200

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	if over := len(b.kept) - tailLimit; over > 0 {
		b.kept = append(b.kept[:0], b.kept[over:]...)
		b.cut = true
	}
	return len(p), nil
}

func (b *tailBuffer) String() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(b.kept), "\uFFFD"))
	if b.cut {
		text = "… " + text
	}
	return text
}

// payloadFile is a file without a name that holds a payload, to be a program's stdin. It is complete before the program
// starts: through a pipe, a program whose worker is killed would see an early end of file and could not distinguish it
// from the end of the payload.
func payloadFile(payload []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "dbq-payload-")
	if err != nil {
		return nil, fmt.Errorf("cannot store the payload: %w", err)
	}
	if _, err = f.WriteAt(payload, 0); err == nil && runtime.GOOS != "windows" {
		err = os.Remove(f.Name()) // where an open file cannot be removed, closePayload does it
	}
	if err != nil {
		f.Close()
		_ = os.Remove(f.Name())
		return nil, fmt.Errorf("cannot store the payload: %w", err)
	}
	return f, nil
}

// closePayload gives the file back.
func closePayload(f *os.File) {
	f.Close()
	if runtime.GOOS == "windows" {
		_ = os.Remove(f.Name())
	}
}

// newThread starts a thread that runs functions until the channel is closed. On Linux, a program that is set to die
// with its parent dies with the thread that started it, and Go's other threads can end before the process.
func newThread() chan<- func() {
	run := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		for f := range run {
			f()
		}
	}()
	return run
}

// environment returns the part of dbq's own environment that its programs get.
type environment struct {
	all  bool     // everything
	also []string // names that are passed although they belong to the database
}

// check refuses invalid names.
func (e environment) check() error {
	for _, name := range e.also {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return usagef("--env: give the name of a variable, such as --env PGHOST")
		}
	}
	return nil
}

// inherited returns dbq's environment, which is all, without the variables that give access to its database: programs
// do not need them, and could print them.
func (e environment) inherited(all []string, dsn string) []string {
	if e.all {
		return all
	}
	return slices.DeleteFunc(all, func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return !slices.Contains(e.also, name) && (opensDatabase(name) || holds(value, dsn))
	})
}

// holds reports whether a variable's value has the DSN in it. A file's path has no password and may be as short as a
// piece of PATH: it is looked for as a word of its own.
func holds(value, dsn string) bool {
	switch {
	case dsn == "":
		return false
	case isFile(dsn):
		return slices.Contains(strings.Fields(value), dsn)
	}
	return strings.Contains(value, dsn)
}

// opensDatabase reports whether a variable is a setting of dbq or of a database's client.
func opensDatabase(name string) bool {
	return slices.ContainsFunc([]string{"DBQ_", "PG", "MYSQL_", "MARIADB_", "ORACLE_", "TNS_", "TWO_TASK"},
		func(prefix string) bool { return strings.HasPrefix(strings.ToUpper(name), prefix) })
}

// taskEnv is the part of a program's environment that describes the task.
func taskEnv(t dbq.Task) []string {
	env := []string{
		"DBQ_TASK_ID=" + t.ID.String(), "DBQ_QUEUE=" + t.Queue, "DBQ_KIND=" + t.Kind, "DBQ_REFERENCE=" + t.Reference,
		"DBQ_ATTEMPT=" + strconv.Itoa(t.Attempt), "DBQ_MAX_ATTEMPTS=" + strconv.Itoa(t.MaxAttempts),
		"DBQ_FENCE=" + strconv.FormatInt(t.Fence, 10),
	}
	taken := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(t.Headers)) {
		name := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' {
				return r
			}
			return '_'
		}, strings.ToUpper(k))
		for n, base := 2, name; taken[name]; n++ { // a-b and a_b
			name = base + "_" + strconv.Itoa(n)
		}
		taken[name] = true
		env = append(env, "DBQ_HEADER_"+name+"="+strings.ReplaceAll(t.Headers[k], "\x00", ""))
	}
	return env
}
