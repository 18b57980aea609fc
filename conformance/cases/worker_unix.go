//go:build unix

package cases

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
)

func (p *process) signal(s syscall.Signal) { p.t.must(p.cmd.Process.Signal(s)) }

func workerStopped(t *test) {
	c := t.open()
	q, table := c.Queue("work"), t.effectTable(c)
	id := t.enqueue(q, dbq.NewTask{})
	until := filepath.Join(t.Dir, "continue") // its handler waits for it, so that the process is stopped in time
	p := t.start(childSpec{Do: "work", Name: "stopped", Queue: "work", Table: table, Lease: time.Second, Batch: []int{1},
		Pause: processTime, Until: until})
	t.awaitFirstEffect(c, table, p)
	t.stopBetweenWrites(c, p)
	t.awaitExpiry(c, id)
	task := t.takeOver(q, id, long)
	successor := effects{q, table, "successor"}
	t.must(successor.complete(t.ctx, task))
	t.must(os.WriteFile(until, nil, 0o600))
	p.signal(syscall.SIGCONT)
	var who string
	t.eventually("the stopped process tries to complete its task", func() bool {
		effects := t.effects(c, table)[id.String()]
		slices.Sort(effects)
		who = strings.Join(effects, ", ")
		return len(effects) > 2 || p.gone()
	})
	p.stop()
	t.failIf(who != "began stopped, refused stopped, successor",
		"the task's effects are %q, want the successor's, and that the other was refused", who)
	t.wantResult(c, id, "successor")
}

// stopBetweenWrites stops a process at a point where it does not block other writers. Where a database has one writer,
// a process that is stopped in the middle of a transaction has the database for itself until it continues, whatever a
// task queue does.
func (t *test) stopBetweenWrites(c *dbq.Client, p *process) {
	const tries, enough = 8, time.Second // less is not enough for a write on a busy machine
	for range tries {
		p.signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.ctx, enough)
		_, err := c.Queue("probe").Enqueue(ctx, dbq.NewTask{})
		cancel()
		if err == nil {
			return
		}
		p.signal(syscall.SIGCONT)
		t.enqueue(c.Queue("probe"), dbq.NewTask{}) // it has left its transaction
	}
	t.Fatalf("the process was in the middle of a transaction %d times", tries)
}

func workerTerminated(t *test) {
	c := t.open()
	table := t.effectTable(c)
	ids := t.enqueueMany(c.Queue("work"), 12, nil)
	p := t.start(childSpec{Do: "work", Name: "terminated", Queue: "work", Table: table, Lease: long,
		Batch: []int{10}, Pause: time.Second})
	t.awaitFirstEffect(c, table, p)
	p.signal(syscall.SIGTERM)
	p.wait(t.Patience)
	t.failIf(p.err != nil, "the process ended with %v\n%s", p.err, p.stderr.String())
	done := 0
	found := t.effects(c, table)
	for i, id := range ids {
		task := t.get(c, id)
		effects := found[id.String()]
		slices.Sort(effects)
		switch who := strings.Join(effects, ", "); {
		case task.State == dbq.StateCompleted && who == "began terminated, terminated" && task.Attempt == 1:
			done++
		case task.State == dbq.StateCreated && who == "" && task.Attempt == 0:
		default:
			t.Errorf("task %d is %v after %d attempts with the effects %q, want it completed, or as if it had never begun",
				i, task.State, task.Attempt, effects)
		}
	}
	t.failIf(done < 1 || done == len(ids), "%d of %d tasks are completed, want those that had begun", done, len(ids))
}
