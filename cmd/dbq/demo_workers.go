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
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// demoProcess is one worker process of the demo.
type demoProcess struct {
	number int
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr tailBuffer
	ended  chan struct{} // closed when it has ended
	killed bool
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
			return failedf("nothing moved for %v, %d of %d tasks are done: the demo gives up", demoStuck, done, total)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// pace is how many files a worker has in hand at once, and how long it pauses at each, so that all of it takes about
// two seconds: long enough to see a worker die in the middle. In a large folder the pause is short.
func pace(files, workers int) (concurrency int, pause time.Duration) {
	concurrency = min(max(2, files/(8*workers)), 16)
	all := 2 * time.Second * time.Duration(workers*concurrency)
	return concurrency, min(all/time.Duration(files), 150*time.Millisecond)
}

// start starts this very program as a worker. The DSN goes through the environment, as anybody can read a command line.
func (d *demo) start(ctx context.Context, number int, more ...string) (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &demoProcess{number: number, name: fmt.Sprintf("demo worker %d", number), ended: make(chan struct{})}
	concurrency, pause := pace(len(d.tasks), d.flags.workers)
	p.cmd = exec.Command(self, slices.Concat([]string{"demo-worker", "--dir", d.files.dir, "--name", p.name,
		"--completions", d.completions, "--concurrency", strconv.Itoa(concurrency), "--pause", pause.String(),
		"--prefix", d.prefix, "--schema", d.schema, "--strategy", d.strategy}, more)...)
	p.cmd.Env = append(os.Environ(), "DBQ_DSN="+d.dsn)
	p.cmd.Stderr = &p.stderr
	ownGroup(p.cmd) // Ctrl-C is for the demo, which stops its workers
	stdout, stdoutWriter := io.Pipe()
	p.stdout, p.cmd.Stdout = bufio.NewReader(stdout), stdoutWriter
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // failure reports how it ended
		stdoutWriter.Close()
		close(p.ended)
	}()
	d.workers = append(d.workers, p)
	d.show.line("worker %d started, pid %d", number, p.cmd.Process.Pid)
	return p, ctx.Err()
}

// awaitHold waits until the first worker has reported the task that it holds.
func (d *demo) awaitHold(ctx context.Context, p *demoProcess) error {
	line := make(chan string, 1)
	go func() {
		text, _ := p.stdout.ReadString('\n') // without a line the process has ended
		line <- text
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(demoStuck):
		return failedf("worker %d took no task within %v", p.number, demoStuck)
	case text := <-line:
		var id string
		var fence int64
		if _, err := fmt.Sscanf(text, "holds %s %d\n", &id, &fence); err != nil {
			<-p.ended
			return p.failure()
		}
		task, err := uuid.Parse(id)
		d.held = map[uuid.UUID]int64{task: fence}
		return err
	}
}

// kill ends a worker without warning, and reads from the database what it held.
func (d *demo) kill(ctx context.Context, p *demoProcess, done int64) error {
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.ended
	tasks, err := admin.New(d.c).
		List(ctx, admin.Filter{Queue: demoQueue, States: []state.State{state.Processing}, Limit: dbq.MaxBulk})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if strings.HasPrefix(t.Holder, p.name+"#") {
			d.held[t.ID] = t.Fence
		}
	}
	d.show.line("worker %d killed (SIGKILL) with %d of %d done: it held %s, whose leases run out within %v",
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

// running counts the workers that run. A worker that has ended and was not killed is an error.
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
			if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
				<-p.ended
			}
		}
	}
	d.workers = nil
}
