package conformance

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
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/worker"
)

// childVariable holds what a worker process is to do. A variable of the environment is not shown to other users, as an argument
// would be; the DSN in it may carry a password.
const childVariable = "DBQ_CONFORMANCE_CHILD"

// childTime bounds the life of a worker process, whatever becomes of its parent: no case takes longer.
const childTime = caseTimeout

// A childSpec is one worker process.
type childSpec struct {
	DSN      string
	Prefix   string
	Strategy dialect.Strategy
	Name     string
	Queue    string
	Do       string // one of the keys of childWork
	Batch    []int
	Lease    time.Duration
	Pause    time.Duration // work on each batch, at most; of "work", on each task
	Table    string        // of "work": where effects are written
	Seed     uint64
	History  string // a file, made by the child
}

// childWork is what a worker process can do until its standard input ends.
var childWork = map[string]func(ctx context.Context, w *witness, s childSpec) error{
	"drain":  childDrain,
	"crash":  childCrash,
	"work":   childWorker,
	"endure": childEndure,
	"mortal": childMortal,
}

// Child makes the program a worker process of the suite when the suite started it as one, and does not return then. Call it first
// thing in main or TestMain; the cases that need several processes start the program again. Otherwise it does nothing.
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
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	go func() { // the parent closes its end of standard input, or dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop(errStopped)
	}()
	file, err := os.OpenFile(s.History, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	c, err := dbq.Open(ctx, s.DSN, dbq.WithPrefix(s.Prefix), dbq.WithStrategy(s.Strategy), dbq.WithLogger(quietLog))
	if err != nil && context.Cause(ctx) == errStopped {
		fmt.Println(0)
		return nil // it was told to stop before it had begun
	}
	if err != nil {
		return err
	}
	defer c.Close()
	err = work(ctx, &witness{newWallRecorder(file), s.Name, c.Queue(s.Queue)}, s)
	fmt.Println(c.Conflicts()) // for process.stop
	return err
}

var errStopped = fmt.Errorf("told to stop")

// childDrain completes what it can get. It is told to stop when nothing is left, and finishes what it has first: its calls do
// not end with ctx.
func childDrain(ctx context.Context, w *witness, s childSpec) error {
	dice := rand.New(rand.NewPCG(s.Seed, 0))
	calls := context.WithoutCancel(ctx)
	for context.Cause(ctx) != errStopped {
		tasks, err := w.checkout(calls, s.Batch[dice.IntN(len(s.Batch))], s.Lease)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			_ = rest(ctx, 2*time.Millisecond) // the loop's condition says whether it was told to stop
		}
		if s.Pause > 0 && len(tasks) > 0 {
			time.Sleep(time.Duration(dice.Int64N(int64(s.Pause))))
		}
		for _, task := range tasks {
			remove := dice.IntN(10) == 0
			settlement := dbq.Completed(task.Lease, nil)
			if remove {
				settlement = dbq.CompletedAndDeleted(task.Lease)
			}
			if _, err := w.settle(calls, remove, settlement); err != nil {
				return err
			}
		}
		if ctx.Err() != nil && context.Cause(ctx) != errStopped {
			return context.Cause(ctx)
		}
	}
	return nil
}

// childCrash takes one task and dies without a word, as a task does that runs out of memory.
func childCrash(ctx context.Context, w *witness, s childSpec) error {
	for {
		tasks, err := w.checkout(ctx, 1, s.Lease)
		if err != nil {
			return err
		}
		if len(tasks) > 0 {
			return killSelf()
		}
		if err := rest(ctx, 5*time.Millisecond); err != nil {
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

// childWorker runs a worker until it is told to stop, by its standard input's end or by SIGTERM.
func childWorker(ctx context.Context, w *witness, s childSpec) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	e := effects{w.q, s.Table, s.Name}
	return (&worker.Worker{Queue: w.q, Handler: e.handler(s.Pause), Concurrency: 2, Batch: s.Batch[0], Lease: s.Lease, Backoff: soon,
		PollMax: 100 * time.Millisecond, Grace: patience}).Run(ctx)
}
