package cases

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
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/state"
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
	orders, err := json.Marshal(s)
	t.must(err)
	self, err := os.Executable()
	t.must(err)
	p := &process{t: t, spec: s, cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(orders))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = time.Second // a descendant that keeps standard error open does not hold us up
	stdin, err := p.cmd.StdinPipe()
	t.must(err)
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

// stop lets the process finish what it holds, and records a failure unless it ends without an error.
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

// records reads what the process has recorded so far.
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

// A tail keeps the end of what is written to it.
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

func severalProcesses(t *test) {
	c, rec := t.open(), transcript.NewWallClockRecorder(nil)
	var ps []*process
	for i := range 3 {
		ps = append(ps, t.start(childSpec{Do: "drain", Name: fmt.Sprintf("process %d", i), Queue: "shared",
			Batch: []int{1, 3, 10, 30}, Lease: time.Minute}))
	}
	producer := rec.Caller("producer", c.Queue("shared"))
	t.produce(t.ctx, producer, t.load(400), t.rngs(1)[0], &backlog{})
	t.awaitIdle(c, ps)
	records := rec.Records()
	for _, p := range ps {
		p.stop()
		records = append(records, p.records()...)
	}
	t.wantAll(t.checkTranscript(c, records), dbq.StateCompleted)
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
	if taken < held {
		t.Errorf("the killed process held %d tasks, and %d were handed out as a second attempt", held, taken)
	}
	t.wantAll(t.checkTranscript(c, append(append(rec.Records(), killed.records()...), successorRecords...)),
		dbq.StateCompleted)
}

// heldAndSettled counts the tasks that a process has taken and not begun to settle, and those it has settled.
func heldAndSettled(rs []transcript.Record) (held, settled int) {
	begun := map[uuid.UUID]bool{}
	for _, r := range rs {
		if r.Event == state.Complete {
			begun[r.Task] = true
			if r.Answer == transcript.Happened {
				settled++
			}
		}
	}
	for _, r := range rs {
		if r.Event == state.Checkout && r.Answer == transcript.Happened && !begun[r.Task] {
			held++
		}
	}
	return held, settled
}

func crashingTaskEndsInPoison(t *test) {
	c, rec := t.open(), transcript.NewWallClockRecorder(nil)
	const attempts = 3
	w := rec.Caller("producer", c.Queue("crashing"))
	added, err := w.Enqueue(t.ctx, []dbq.NewTask{{MaxAttempts: attempts}})
	t.must(err)
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
	var task dbq.Task
	t.eventually("a checkout finds that the attempts are exhausted", func() bool {
		t.wantNone("the task's attempts are exhausted", w.Queue)
		task = t.get(c, added[0].ID)
		return task.State == dbq.StatePoison || t.failed()
	})
	if task.Attempt != attempts {
		t.Errorf("the task has %d attempts, want %d", task.Attempt, attempts)
	}
	t.checkTranscript(c, records)
}
