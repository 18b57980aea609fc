//go:build unix

package conformance

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
)

func (p *process) signal(s syscall.Signal) { p.t.Must(p.cmd.Process.Signal(s)) }

func workerStopped(t *T) {
	c := t.Open()
	q, table := c.Queue("work"), t.effectTable(c)
	id := t.enqueue(q, dbq.NewTask{})
	const takes = 3 * time.Second // the process must be stopped within
	p := t.start(childSpec{Do: "work", Name: "stopped", Queue: "work", Table: table, Lease: time.Second, Batch: []int{1}, Pause: takes})
	t.begun(c, table, p)
	p.signal(syscall.SIGSTOP)
	t.ranOut(c, id)
	task := t.takeOver(q, id, long)
	heir := effects{q, table, "heir"}
	t.Must(heir.complete(t.ctx, task))
	p.signal(syscall.SIGCONT)
	var who string
	t.eventually("the stopped process tries to complete its task", func() bool {
		effects := t.effects(c, table)[id.String()]
		slices.Sort(effects)
		who = strings.Join(effects, ", ")
		return len(effects) > 2 || p.gone()
	})
	p.stop()
	if who != "began stopped, heir, refused stopped" {
		t.Errorf("the task's effects are %q, want the heir's, and that the other was refused", who)
	}
	if task := t.wantState(c, id, dbq.StateCompleted); string(task.Result) != "heir" {
		t.Errorf("the result is %q, want the heir's", task.Result)
	}
}

func workerTerminated(t *T) {
	c := t.Open()
	table := t.effectTable(c)
	ids := t.enqueueMany(c.Queue("work"), 12, nil)
	p := t.start(childSpec{Do: "work", Name: "terminated", Queue: "work", Table: table, Lease: 2 * time.Second, Batch: []int{10}, Pause: time.Second})
	t.begun(c, table, p)
	p.signal(syscall.SIGTERM)
	p.wait(patience)
	if p.err != nil {
		t.Errorf("the process ended with %v\n%s", p.err, p.stderr.String())
	}
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
	if done < 1 || done == len(ids) {
		t.Errorf("%d of %d tasks are completed, want those that had begun", done, len(ids))
	}
}
