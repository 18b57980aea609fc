package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// demoProcess is one worker process of the demo.
type demoProcess struct {
	number int
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr tailBuffer
	holds  chan demoTask // the task that it reported as held
	ended  chan struct{} // closed when it has ended and its stdout was read
	killed bool
}

// demoTask is a task with the fence of a lease.
type demoTask struct {
	id    uuid.UUID
	fence int64
}

// runWorkers starts the workers, kills the first one in the middle, and returns when every task has ended.
func (d *demo) runWorkers(ctx context.Context) error {
	first, err := d.start(ctx, 1, "--hold-first")
	if err == nil {
		err = d.awaitHold(ctx, first)
	}
	for n := 2; n <= d.flags.workers && err == nil; n++ {
		_, err = d.start(ctx, n)
	}
	if err != nil {
		return err
	}
	total := int64(len(d.tasks))
	third := min(max(total/3, 1), total-1) // the first worker leaves all but one task to the others
	last, since := int64(-1), time.Now()
	for {
		done, err := d.done(ctx)
		if err == nil && !first.killed && done >= third {
			err = d.kill(ctx, first, done)
		}
		if err != nil || first.killed && done == total {
			return err
		}
		running, err := d.running()
		if err != nil {
			return err
		}
		d.show.update("%d of %d done by %s", done, total, plural(running, "worker"))
		if done != last {
			last, since = done, time.Now()
		} else if time.Since(since) > demoStuck {
			return failedf("stopped: no progress for %v, %d of %d tasks are done", demoStuck, done, total)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// pace returns how many files a worker hashes at once, and how long it pauses at each. The whole run then takes about
// two seconds, long enough to see a worker die in the middle. In a large directory the pause is short.
func pace(files, workers int) (concurrency int, pause time.Duration) {
	concurrency = min(max(2, files/(8*workers)), 16)
	all := 2 * time.Second * time.Duration(workers*concurrency)
	return concurrency, min(all/time.Duration(files), 150*time.Millisecond)
}

// start starts this program as a worker. The DSN goes through the environment, because command lines are public.
func (d *demo) start(ctx context.Context, number int, more ...string) (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &demoProcess{number: number, name: fmt.Sprintf("demo worker %d", number),
		holds: make(chan demoTask, 1), ended: make(chan struct{})}
	concurrency, pause := pace(len(d.tasks), d.flags.workers)
	p.cmd = exec.Command(self, slices.Concat([]string{"demo-worker", "--dir", d.files.dir, "--name", p.name,
		"--concurrency", strconv.Itoa(concurrency), "--pause", pause.String(),
		"--prefix", d.prefix, "--schema", d.schema, "--strategy", d.strategy}, more)...)
	p.cmd.Dir, p.cmd.Env = d.dir, append(d.environ(), "DBQ_DSN="+d.dsn)
	p.cmd.Stderr = &p.stderr
	ownGroup(p.cmd) // Ctrl-C is for the demo, which stops its workers
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			d.report(p, lines.Text())
		}
		_ = p.cmd.Wait() // failure reports how it ended
		close(p.ended)
	}()
	d.workers = append(d.workers, p)
	d.show.line("worker %d started, pid %d", number, p.cmd.Process.Pid)
	return p, ctx.Err()
}

// report handles a line from a worker: it holds a task, or the database accepted a completion.
func (d *demo) report(p *demoProcess, line string) {
	var what, id string
	var t demoTask
	_, err := fmt.Sscan(line, &what, &id, &t.fence)
	if err == nil {
		t.id, err = uuid.Parse(id)
	}
	if err != nil {
		return // not a line of the protocol
	}
	if what == demoHolds {
		p.holds <- t
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.completed[t.id]++
}

// awaitHold waits until the first worker has reported the task that it holds.
func (d *demo) awaitHold(ctx context.Context, p *demoProcess) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(demoStuck):
		return failedf("worker %d leased no task within %v", p.number, demoStuck)
	case <-p.ended:
		return p.failure()
	case t := <-p.holds:
		d.held = map[uuid.UUID]int64{t.id: t.fence}
		return nil
	}
}

// kill ends a worker without warning, and reads from the database which tasks it held.
func (d *demo) kill(ctx context.Context, p *demoProcess, done int64) error {
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.ended
	held, err := admin.New(d.c).
		List(ctx, admin.Filter{Queue: demoQueue, States: []state.State{state.Processing}, Limit: dbq.MaxBulk})
	if err != nil {
		return err
	}
	for _, t := range held.Tasks {
		if strings.HasPrefix(t.Holder, p.name+"#") {
			d.held[t.ID] = t.Fence
		}
	}
	d.show.line("worker %d killed (SIGKILL) with %d of %d done: it held %s, whose leases expire within %v",
		p.number, done, len(d.tasks), plural(len(d.held), "task"), demoLease)
	return nil
}

// done counts the tasks that have ended.
func (d *demo) done(ctx context.Context) (int64, error) {
	stats, err := admin.New(d.c).Stats(ctx, admin.CountAll())
	if err != nil || len(stats) == 0 {
		return 0, err
	}
	n := stats[0].Count
	return n[state.Completed] + n[state.Poison] + stats[0].Parked, nil
}

// running counts the running workers. It returns an error if a worker has ended without being killed.
func (d *demo) running() (n int, err error) {
	for _, p := range d.workers {
		select {
		case <-p.ended:
			if !p.killed {
				return n, p.failure()
			}
		default:
			n++
		}
	}
	return n, nil
}

func (p *demoProcess) failure() error {
	text := fmt.Sprintf("worker %d ended early (%v)", p.number, p.cmd.ProcessState)
	if s := p.stderr.String(); s != "" {
		text += ": " + s
	}
	return failedf("%s", text)
}

// stopWorkers stops the workers, and kills those that do not end within 5 seconds.
func (d *demo) stopWorkers() {
	for _, p := range d.workers {
		_ = p.stdin.Close()
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.After(5 * time.Second)
	for _, p := range d.workers {
		select {
		case <-p.ended:
		case <-late:
			late = time.After(0)
			_ = p.cmd.Process.Kill() // it may have ended meanwhile
			<-p.ended
		}
	}
	d.workers = nil
}

// Lines on a worker's stdout begin with one of these words, followed by a task's id and fence.
const (
	demoHolds     = "holds"
	demoCompleted = "completed"
)

// demoWorker is one of the demo's workers. It runs in its own process.
type demoWorker struct {
	*app
	dir, name   string
	concurrency int
	pause       time.Duration
	holdFirst   bool // hold the first task until the process is killed

	first    sync.Once
	stopping <-chan struct{}
}

// newDemoWorker is the command by which the demo starts its workers.
func newDemoWorker(a *app) *cobra.Command {
	w := &demoWorker{app: a}
	cmd := &cobra.Command{Use: "demo-worker", Hidden: true, Args: noArgs("")}
	cmd.RunE = a.runE(func(ctx context.Context, _ []string) error { return w.run(ctx) })
	l := cmd.Flags()
	l.StringVar(&w.dir, "dir", "", "")
	l.StringVar(&w.name, "name", "", "")
	l.IntVar(&w.concurrency, "concurrency", 2, "")
	durationVar(l, &w.pause, "pause", 0, "")
	l.BoolVar(&w.holdFirst, "hold-first", false, "")
	return cmd
}

func (w *demoWorker) run(ctx context.Context) error {
	c, err := w.open(ctx, false, dbq.WithName(w.name))
	if err != nil {
		return err
	}
	defer c.Close()
	// The demo holds the other end of stdin: a worker does not outlive it, even one that was killed.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		_, _ = io.Copy(io.Discard, w.in)
		stop(nil)
	}()
	w.stopping = ctx.Done()
	run := worker.Worker{
		Queue: c.Queue(demoQueue), Handler: w, Concurrency: w.concurrency, Lease: demoLease, DrainTimeout: 2 * time.Second,
		Tuning: worker.Tuning{PollMin: 5 * time.Millisecond, PollMax: 100 * time.Millisecond}, Logger: newLogger(w.app),
		// The demo counts the completions that the database granted, not only the final states.
		Observe: func(e worker.Observation) {
			if e.Type != worker.Recorded || e.Err != nil || e.State != dbq.StateCompleted {
				return
			}
			if err := w.say("%s %s %d", demoCompleted, e.Task.ID, e.Task.Fence); err != nil {
				stop(err)
			}
		},
	}
	err = run.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// HandleTask completes a task with the hash of the file that it names. A file that cannot be read is POISON: another
// attempt would not help.
func (w *demoWorker) HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome {
	hold := false
	if w.holdFirst {
		w.first.Do(func() { hold = true })
	}
	if hold {
		if err := w.say("%s %s %d", demoHolds, t.ID, t.Fence); err != nil {
			return dbq.Failed(err)
		}
		select { // until it is killed, or the demo stops
		case <-w.stopping:
			return dbq.RetryIn(0, errors.New("the demo was stopped"))
		case <-ctx.Done():
			return dbq.Failed(ctx.Err())
		}
	}
	select {
	case <-time.After(w.pause):
	case <-ctx.Done():
		return dbq.Failed(ctx.Err())
	}
	sum, err := hashFile(w.dir, string(t.Payload))
	if err != nil {
		return dbq.Poisoned(err)
	}
	return dbq.Completed([]byte(sum))
}
