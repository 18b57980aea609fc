package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// A process is a worker process that a case started.
type process struct {
	t      *test
	spec   childSpec
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout tail
	stderr tail
	done   chan struct{} // closed when it is gone
	err    error         // how it ended; read it after done
}

// start runs this very program as a worker process; see Child. It is killed after the case at the latest.
func (t *test) start(s childSpec) *process {
	if !t.Processes {
		t.Skipf("the program that runs the suite does not call conformance.Child, so it cannot start worker processes")
	}
	s.DSN, s.Prefix, s.Strategy, s.Seed = t.nodeDSN(t.started), t.Prefix, t.Strategy, t.rand.Uint64()
	t.started++
	s.Transcript = filepath.Join(t.Dir, "transcript-"+uuid.NewString())
	orders := must(json.Marshal(s))
	self := must(os.Executable())
	p := &process{t: t, spec: s, cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(orders))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = time.Second // a descendant that keeps standard error open does not hold us up
	stdin := must(p.cmd.StdinPipe())
	p.stdin = stdin
	t.must(p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process by SIGKILL and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it is gone already
	<-p.done
}

// stop lets the process finish its tasks, and records a failure unless it ends without an error.
func (p *process) stop() {
	p.stdin.Close()
	p.wait(p.t.Patience)
	if p.err != nil {
		p.t.Errorf("process %s: %v\n%s", p.spec.Name, p.err, p.stderr.String())
		return
	}
	conflicts, err := strconv.ParseInt(strings.TrimSpace(p.stdout.String()), 10, 64)
	p.t.must(err)
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	p.t.result.Conflicts += conflicts
}

// wait waits for the end of the process, and kills it after a time.
func (p *process) wait(atMost time.Duration) {
	select {
	case <-p.done:
	case <-time.After(atMost):
		p.kill()
		p.t.Errorf("process %s did not end within %v\n%s", p.spec.Name, atMost, p.stderr.String())
	}
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// records reads the records of the process so far.
func (p *process) records() []transcript.Record {
	file, err := os.Open(p.spec.Transcript)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	p.t.must(err)
	defer file.Close()
	records, err := transcript.Read(file)
	p.t.must(err)
	return records
}

// A tail keeps the last bytes that are written to it.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(p)
	if extra := w.b.Len() - 16<<10; extra > 0 {
		w.b.Next(extra)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// awaitIdle waits until no task waits or is leased, as long as one of the processes lives.
func (t *test) awaitIdle(c *dbq.Client, ps []*process) {
	t.eventually("the processes work off the queue", func() bool {
		for _, p := range ps {
			if !p.gone() {
				return t.idle(t.ctx, c)
			}
		}
		t.Fatalf("all processes have ended before the work: %v\n%s", ps[0].err, ps[0].stderr.String())
		return false
	})
}

func killedProcess(t *test) {
	c, rec := t.open(), transcript.NewWallClockRecorder(nil)
	const lease = time.Second
	producer := rec.Caller("producer", c.Queue("shared"))
	t.produce(t.ctx, producer, t.load(60), t.rngs(1)[0], &backlog{})
	spec := childSpec{Do: "drain", Name: "killed", Queue: "shared", Batch: []int{10}, Lease: lease,
		Pause: 300 * time.Millisecond}
	killed := t.start(spec)
	t.eventually("the first process settles some tasks and holds others", func() bool {
		held, settled := heldAndSettled(killed.records())
		if killed.gone() {
			t.Fatalf("it ended by itself: %v\n%s", killed.err, killed.stderr.String())
		}
		return held > 0 && settled > 0
	})
	killed.kill()
	held, _ := heldAndSettled(killed.records())
	spec.Name, spec.Pause = "successor", 0
	successor := t.start(spec)
	t.awaitIdle(c, []*process{successor})
	successor.stop()
	taken := 0
	successorRecords := successor.records()
	for _, r := range successorRecords {
		if r.Event == state.Checkout && r.Answer == transcript.Happened && r.Attempt > 1 {
			taken++
		}
	}
	t.failIf(taken < held, "the killed process held %d tasks, and %d were handed out as a second attempt", held, taken)
	t.wantAll(t.checkTranscript(c, append(append(rec.Records(), killed.records()...), successorRecords...)),
		dbq.StateCompleted)
}

// heldAndSettled counts the tasks that a process has taken and not begun to settle, and those it has settled.
func heldAndSettled(rs []transcript.Record) (held, settled int) {
	begun := map[uuid.UUID]bool{}
	for _, r := range rs {
		if r.Event == state.Complete {
			begun[r.TaskID] = true
			if r.Answer == transcript.Happened {
				settled++
			}
		}
	}
	for _, r := range rs {
		if r.Event == state.Checkout && r.Answer == transcript.Happened && !begun[r.TaskID] {
			held++
		}
	}
	return held, settled
}

func crashingTaskEndsInPoison(t *test) {
	c, rec := t.open(), transcript.NewWallClockRecorder(nil)
	const attempts = 3
	w := rec.Caller("producer", c.Queue("crashing"))
	added := must(w.Enqueue(t.ctx, []dbq.NewTask{{MaxAttempts: attempts}}))
	records := rec.Records()
	for i := range attempts {
		p := t.start(childSpec{Do: "crash", Name: fmt.Sprintf("process %d", i), Queue: "crashing",
			Lease: 50 * time.Millisecond})
		p.wait(t.Patience)
		if p.err == nil || len(p.records()) == 0 {
			t.Fatalf("process %d was to die in its attempt; it ended with %v\n%s", i, p.err, p.stderr.String())
		}
		records = append(records, p.records()...)
	}
	t.awaitExhausted(w.Queue, added[0].ID)
	if n := t.get(c, added[0].ID).Attempt; n != attempts {
		t.Errorf("the task has %d attempts, want %d", n, attempts)
	}
	t.checkTranscript(c, records)
}

// childVariable is the environment variable with the orders for a worker process. Other users cannot read it, as they
// could read an argument; the DSN in it may contain a password.
const childVariable = "DBQ_CONFORMANCE_CHILD"

// processLimit bounds the life of a worker process, whatever happens to its parent: no case takes longer.
const processLimit = Timeout

// A childSpec is the orders for one worker process.
type childSpec struct {
	DSN        string
	Prefix     string
	Strategy   dialect.Strategy
	Name       string
	Queue      string
	Do         string // one of the keys of childWork
	Batch      []int
	Lease      time.Duration
	Pause      time.Duration // work on each batch, at most; of "work", on each task
	Until      string        // of "work": a file that ends Pause
	Table      string        // of "work": where effects are written; of "steps": a file for them
	Seed       uint64
	Transcript string // a file, made by the child
}

// childWork maps the kinds of worker processes to their work, which ends with their standard input.
var childWork = map[string]func(ctx context.Context, w *transcript.Caller, s childSpec) error{
	"drain":          childDrain,
	"crash":          childCrash,
	"work":           childWorker,
	"persist":        childPersist,
	"crashing tasks": childCrashingTasks,
	"steps":          childSteps,
	"schedules":      childSchedules,
}

// Child makes the program a worker process of the suite when the suite started it as one, and does not return then.
// Call it first thing in main or TestMain; the cases that need several processes start the program again. Otherwise it
// does nothing.
func Child() {
	text, isChild := os.LookupEnv(childVariable)
	if !isChild {
		return
	}
	if err := runChild(text); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: worker process: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(text string) error {
	var s childSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("its orders: %w", err)
	}
	work, known := childWork[s.Do]
	if !known {
		return fmt.Errorf("no such work: %q", s.Do)
	}
	ctx, cancel := context.WithTimeout(context.Background(), processLimit)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	go func() { // the parent closes its end of standard input, or dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop(errStopped)
	}()
	file, err := os.OpenFile(s.Transcript, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	c, err := dbq.Open(ctx, s.DSN, dbq.WithPrefix(s.Prefix), dbq.WithStrategy(s.Strategy), dbq.WithLogger(quietLog))
	if err != nil && context.Cause(ctx) == errStopped {
		fmt.Println(0)
		return nil // it was stopped before it had begun
	}
	if err != nil {
		return err
	}
	defer c.Close()
	err = work(ctx, transcript.NewWallClockRecorder(file).Caller(s.Name, c.Queue(s.Queue)), s)
	fmt.Println(c.Stats().Conflicts) // for process.stop
	return err
}

var errStopped = fmt.Errorf("told to stop")

// childDrain completes every task it can get. It finishes its tasks before it stops: its calls do not end with ctx.
func childDrain(ctx context.Context, w *transcript.Caller, s childSpec) error {
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	calls := context.WithoutCancel(ctx)
	for context.Cause(ctx) != errStopped {
		tasks, err := w.Checkout(calls, s.Batch[rng.IntN(len(s.Batch))], s.Lease)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			_ = sleep(ctx, 2*time.Millisecond) // the loop's condition checks whether it must stop
		}
		if s.Pause > 0 && len(tasks) > 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(s.Pause))))
		}
		for _, task := range tasks {
			remove := rng.IntN(10) == 0
			how := settlement(task.Lease, dbq.Completed(nil))
			if remove {
				how = settlement(task.Lease, dbq.Deleted())
			}
			if _, err := w.Settle(calls, remove, how); err != nil {
				return err
			}
		}
		if ctx.Err() != nil && context.Cause(ctx) != errStopped {
			return context.Cause(ctx)
		}
	}
	return nil
}

// childCrash takes one task and kills its own process, as a task does that runs out of memory.
func childCrash(ctx context.Context, w *transcript.Caller, s childSpec) error {
	for {
		tasks, err := w.Checkout(ctx, 1, s.Lease)
		if err != nil {
			return err
		}
		if len(tasks) > 0 {
			return killSelf()
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("no task came: %w", context.Cause(ctx))
		}
	}
}

func killSelf() error {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	time.Sleep(time.Minute) // the signal is on its way
	return fmt.Errorf("still alive after killing itself")
}

// childWorker runs a worker until its standard input ends or SIGTERM arrives.
func childWorker(ctx context.Context, w *transcript.Caller, s childSpec) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	e := effects{w.Queue, s.Table, s.Name}
	return (&worker.Worker{Queue: w.Queue, Handler: e.handler(s.Pause, s.Until), Concurrency: 2, MaxCheckout: s.Batch[0],
		Lease:   s.Lease,
		Backoff: soon,
		Tuning:  worker.Tuning{PollMax: 100 * time.Millisecond, Grace: defaultPatience}}).Run(ctx)
}
