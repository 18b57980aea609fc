package worker

import (
	"fmt"

	"github.com/dbq-go/dbq"
)

// poisoning is a task that went to POISON, for the hook.
type poisoning struct {
	task dbq.Task
	err  error
}

// report passes on what became of a settlement.
func (r *run) report(st *settlement, out dbq.Settled) {
	if r.observed() {
		r.observe(Event{Kind: Recorded, Task: st.job.task, State: out.State, Err: out.Err})
	}
	if out.Err == nil {
		r.recordSettled(st, out)
	}
	if out.Err == nil && out.State == dbq.StatePoison {
		r.poisoned(st.job.task, st.err)
	}
}

func (r *run) poisoned(t dbq.Task, err error) {
	if r.cfg.OnPoison != nil {
		r.poison <- poisoning{t, err}
	}
}

// hooks calls OnPoison until the worker has ended.
func (r *run) hooks() {
	for p := range r.poison {
		r.hook(p)
	}
}

func (r *run) hook(p poisoning) {
	defer func() {
		if v := recover(); v != nil {
			r.cfg.Logger.Error("worker: OnPoison panicked", "task", p.task.ID, "panic", fmt.Sprint(v))
		}
	}()
	r.cfg.OnPoison(r.base, p.task, p.err)
}
