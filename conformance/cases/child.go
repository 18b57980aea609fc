package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/worker"
)

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
	Table      string        // of "work": where effects are written
	Seed       uint64
	Transcript string // a file, made by the child
}

// childWork maps the kinds of worker processes to what they do until their standard input ends.
var childWork = map[string]func(ctx context.Context, w *transcript.Caller, s childSpec) error{
	"drain":          childDrain,
	"crash":          childCrash,
	"work":           childWorker,
	"persist":        childPersist,
	"crashing tasks": childCrashingTasks,
	"poison":         childPoison,
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

// childDrain completes every task it can get. It finishes what it holds before it stops: its calls do not end with ctx.
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
	return (&worker.Worker{Queue: w.Queue, Handler: e.handler(s.Pause), Concurrency: 2, Batch: s.Batch[0], Lease: s.Lease,
		Backoff: soon,
		PollMax: 100 * time.Millisecond, Grace: defaultPatience}).Run(ctx)
}
