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
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// pace is how many files a worker has in hand at the same time, and how long it pauses at each, so that the whole takes about two
// seconds: long enough to see a worker die in the middle. In a large folder the pause is short, and the work itself takes time.
func pace(files, workers int) (slots int, pause time.Duration) {
	slots = min(max(2, files/(8*workers)), 16)
	return slots, min(2*time.Second*time.Duration(workers*slots)/time.Duration(files), 150*time.Millisecond)
}

// crew are the demo's workers.
type crew struct {
	stage *stage
	dir   string
	show  *progress
	size  int
	slots int
	pause time.Duration

	members []*member
	victim  *member
	held    map[uuid.UUID]int64 // what the victim held when it died: task and fence
}

// member is one worker process.
type member struct {
	number int
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	says   *bufio.Reader
	stderr tailBuffer
	ended  chan struct{} // closed when it has ended
	err    error         // then: how
	killed bool
}

// perform starts the workers, kills one in the middle, and returns when every task has ended.
func (c *crew) perform(ctx context.Context, total int) error {
	var err error
	if c.victim, err = c.start(ctx, 1, "--victim"); err != nil {
		return err
	}
	if err := c.awaitHold(ctx); err != nil {
		return err
	}
	for n := 2; n <= c.size; n++ {
		if _, err := c.start(ctx, n); err != nil {
			return err
		}
	}
	third := int64(min(max(total/3, 1), total-1)) // the victim leaves all but one to the others
	last, since := int64(-1), time.Now()
	for {
		done, err := c.done(ctx)
		if err != nil {
			return err
		}
		if !c.victim.killed && done >= third {
			if err := c.kill(ctx, done, total); err != nil {
				return err
			}
		}
		if c.victim.killed && done == int64(total) {
			return nil
		}
		c.show.update("%d of %d done by %s", done, total, plural(c.alive(), "worker"))
		if done != last {
			last, since = done, time.Now()
		} else if time.Since(since) > demoStuck {
			return failedf("nothing moved for %v, %d of %d tasks are done: the demo gives up", demoStuck, done, total)
		}
		if err := c.check(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// start runs this very program as a worker. The DSN goes through the environment: a command line can be read by everybody.
func (c *crew) start(ctx context.Context, number int, more ...string) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &member{number: number, name: fmt.Sprintf("demo worker %d", number), ended: make(chan struct{})}
	args := slices.Concat([]string{"demo-worker", "--dir", c.dir, "--name", m.name, "--accepts", c.stage.accepts,
		"--slots", strconv.Itoa(c.slots), "--pause", c.pause.String()}, c.stage.flags, more)
	m.cmd = exec.Command(self, args...)
	m.cmd.Env = append(os.Environ(), "DBQ_DSN="+c.stage.dsn)
	m.cmd.Stderr = &m.stderr
	ownGroup(m.cmd) // Ctrl-C is for the demo, which stops its workers
	stdin, err := m.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	m.stdin, m.says = stdin, bufio.NewReader(stdout)
	c.members = append(c.members, m)
	if m.number > 1 { // the victim's is waited for once it has said what it holds
		go m.wait()
	}
	c.show.line("worker %d started, pid %d", number, m.cmd.Process.Pid)
	return m, ctx.Err()
}

func (m *member) wait() {
	m.err = m.cmd.Wait()
	close(m.ended)
}

// awaitHold waits until the victim says which task it holds.
func (c *crew) awaitHold(ctx context.Context) error {
	m := c.victim
	line := make(chan string, 1)
	go func() {
		text, _ := m.says.ReadString('\n') // without a line the process has ended
		line <- text
		m.wait()
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(demoStuck):
		return failedf("worker 1 took no task within %v", demoStuck)
	case text := <-line:
		var id string
		var fence int64
		if _, err := fmt.Sscanf(text, "holds %s %d\n", &id, &fence); err != nil {
			<-m.ended
			return m.failure()
		}
		task, err := uuid.Parse(id)
		c.held = map[uuid.UUID]int64{task: fence}
		return err
	}
}

// kill ends the victim without warning, and reads from the database what it held.
func (c *crew) kill(ctx context.Context, done int64, total int) error {
	c.victim.killed = true
	if err := c.victim.cmd.Process.Kill(); err != nil {
		return err
	}
	<-c.victim.ended
	tasks, err := c.stage.c.List(ctx, dbq.Filter{Queue: demoQueue, States: []state.State{state.Processing}, Limit: dbq.MaxBulk})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if strings.HasPrefix(t.Holder, c.victim.name+"#") {
			c.held[t.ID] = t.Fence
		}
	}
	c.show.line("worker 1 killed (SIGKILL) with %d of %d done: it held %s, whose leases run out within %v",
		done, total, plural(len(c.held), "task"), demoLease)
	return nil
}

// done counts the tasks that have ended.
func (c *crew) done(ctx context.Context) (int64, error) {
	stats, err := c.stage.c.Stats(ctx, dbq.CountAll())
	if err != nil || len(stats) == 0 {
		return 0, err
	}
	n := stats[0].Count
	return n[state.Completed] + n[state.Poison] + stats[0].Parked, nil
}

func (c *crew) alive() int {
	n := 0
	for _, m := range c.members {
		select {
		case <-m.ended:
		default:
			n++
		}
	}
	return n
}

// check fails when a worker ended that nobody killed.
func (c *crew) check() error {
	for _, m := range c.members {
		select {
		case <-m.ended:
			if !m.killed {
				return m.failure()
			}
		default:
		}
	}
	return nil
}

func (m *member) failure() error {
	text := fmt.Sprintf("worker %d ended early (%v)", m.number, m.cmd.ProcessState)
	if s := m.stderr.String(); s != "" {
		text += ": " + s
	}
	return failedf("%s", text)
}

// dismiss ends the workers: it asks them, and kills those that do not listen.
func (c *crew) dismiss() {
	for _, m := range c.members {
		_ = m.stdin.Close()
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.After(5 * time.Second)
	for _, m := range c.members {
		select {
		case <-m.ended:
		case <-late:
			late = time.After(0)
			if err := m.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
				<-m.ended
			}
		}
	}
	c.members = nil
}
