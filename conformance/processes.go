package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// process is a worker process that a case started.
type process struct {
	t      *T
	spec   childSpec
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout tail
	stderr tail
	done   chan struct{} // closed when it is gone
	err    error         // how it ended; read it after done
}

// start runs this very program as a worker process, see Child. It is killed after the case at the latest.
func (t *T) start(s childSpec) *process {
	if !t.suite.h.Processes {
		t.Skipf("the program that runs the suite does not call conformance.Child, so it cannot start worker processes")
	}
	s.DSN, s.Prefix, s.Strategy, s.Seed = t.place(t.programs), t.prefix, t.strategy, t.rand.Uint64()
	t.programs++
	s.History = filepath.Join(t.dir, "history-"+uuid.NewString())
	orders, err := json.Marshal(s)
	t.Must(err)
	self, err := os.Executable()
	t.Must(err)
	p := &process{t: t, spec: s, cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(orders))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = time.Second // a descendant that keeps standard error open does not hold us up
	stdin, err := p.cmd.StdinPipe()
	t.Must(err)
	p.stdin = stdin
	t.Must(p.cmd.Start())
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

// stop lets the process finish what it has and notes a failure unless it ends well.
func (p *process) stop() {
	p.stdin.Close()
	p.wait(patience)
	if p.err != nil {
		p.t.Errorf("process %s: %v\n%s", p.spec.Name, p.err, p.stderr.String())
		return
	}
	conflicts, err := strconv.ParseInt(strings.TrimSpace(p.stdout.String()), 10, 64)
	p.t.Must(err)
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	p.t.conflicts += conflicts
}

// wait waits for the end of the process, and makes it end after a time.
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

// records reads what the process has written down up to now.
func (p *process) records() []record {
	file, err := os.Open(p.spec.History)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	p.t.Must(err)
	defer file.Close()
	records, err := readRecords(file)
	p.t.Must(err)
	return records
}

// tail keeps the end of what is written to it.
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

// untilIdle waits until nothing waits and nothing is in work, as long as one of the processes lives.
func (t *T) untilIdle(c *dbq.Client, ps []*process) {
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

func severalProcesses(t *T) {
	c, rec := t.Open(), newWallRecorder(nil)
	var ps []*process
	for i := range 3 {
		ps = append(ps, t.start(childSpec{Do: "drain", Name: fmt.Sprintf("process %d", i), Queue: "shared",
			Batch: []int{1, 3, 10, 30}, Lease: time.Minute}))
	}
	feeder := &witness{rec, "feeder", c.Queue("shared")}
	t.feed(t.ctx, feeder, t.load(400), t.dice(1)[0], &stock{})
	t.untilIdle(c, ps)
	records := rec.all()
	for _, p := range ps {
		p.stop()
		records = append(records, p.records()...)
	}
	t.wantAll(t.judge(c, records), dbq.StateCompleted)
}

func killedProcess(t *T) {
	c, rec := t.Open(), newWallRecorder(nil)
	const lease = time.Second
	feeder := &witness{rec, "feeder", c.Queue("shared")}
	t.feed(t.ctx, feeder, t.load(60), t.dice(1)[0], &stock{})
	spec := childSpec{Do: "drain", Name: "victim", Queue: "shared", Batch: []int{10}, Lease: lease, Pause: 300 * time.Millisecond}
	victim := t.start(spec)
	t.eventually("the first process settles some tasks and holds others", func() bool {
		held, settled := holdings(victim.records())
		if victim.gone() {
			t.Fatalf("it ended by itself: %v\n%s", victim.err, victim.stderr.String())
		}
		return held > 0 && settled > 0
	})
	victim.kill()
	held, _ := holdings(victim.records())
	spec.Name, spec.Pause = "heir", 0
	heir := t.start(spec)
	t.untilIdle(c, []*process{heir})
	heir.stop()
	taken := 0
	heirs := heir.records()
	for _, r := range heirs {
		if r.Event == state.Checkout && r.Outcome == happened && r.Attempt > 1 {
			taken++
		}
	}
	if taken < held {
		t.Errorf("the killed process held %d tasks, and %d were handed out as a second attempt", held, taken)
	}
	t.wantAll(t.judge(c, append(append(rec.all(), victim.records()...), heirs...)), dbq.StateCompleted)
}

// holdings counts the tasks that a process has taken and not begun to settle, and those it has settled.
func holdings(rs []record) (held, settled int) {
	begun := map[uuid.UUID]bool{}
	for _, r := range rs {
		if r.Event == state.Complete {
			begun[r.Task] = true
			if r.Outcome == happened {
				settled++
			}
		}
	}
	for _, r := range rs {
		if r.Event == state.Checkout && r.Outcome == happened && !begun[r.Task] {
			held++
		}
	}
	return held, settled
}

func crashingTaskEndsInPoison(t *T) {
	c, rec := t.Open(), newWallRecorder(nil)
	const attempts = 3
	w := &witness{rec, "feeder", c.Queue("crashing")}
	added, err := w.enqueue(t.ctx, []dbq.NewTask{{MaxAttempts: attempts}})
	t.Must(err)
	records := rec.all()
	for i := range attempts {
		p := t.start(childSpec{Do: "crash", Name: fmt.Sprintf("process %d", i), Queue: "crashing", Lease: 50 * time.Millisecond})
		p.wait(patience)
		if p.err == nil || len(p.records()) == 0 {
			t.Fatalf("process %d was to die in its attempt; it ended with %v\n%s", i, p.err, p.stderr.String())
		}
		records = append(records, p.records()...)
	}
	var task dbq.Task
	t.eventually("a checkout finds that the attempts are spent", func() bool {
		t.wantNone("the task's attempts are spent", w.q)
		task = t.get(c, added[0].ID)
		return task.State == dbq.StatePoison || len(t.failures) > 0
	})
	if task.Attempt != attempts {
		t.Errorf("the task has %d attempts, want %d", task.Attempt, attempts)
	}
	t.judge(c, records)
}
