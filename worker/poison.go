package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
)

// hooksMost is how many calls of OnPoison may wait for the one under way.
const hooksMost = 10_000

// poisoning is a task that went to POISON, for the hook.
type poisoning struct {
	task dbq.Task
	err  error
}

// hooks calls OnPoison for one task after the other. Nothing waits for it but the end of the run.
type hooks struct {
	r    *run
	more chan struct{} // told when something waits, or when the run ends
	// running is how many calls have not returned: one, and at the end one that did not heed its context.
	running atomic.Int64

	mu      sync.Mutex
	waiting []poisoning
	missed  int // that there was no room or no time for
	closed  bool
}

func newHooks(r *run) *hooks { return &hooks{r: r, more: make(chan struct{}, 1)} }

// report passes on what became of a settlement.
func (r *run) report(st *settlement, out dbq.Settled) {
	if r.observed() {
		r.observe(Event{Kind: Recorded, Task: st.job.task, State: out.State, Err: out.Err})
	}
	if out.Err == nil {
		r.recordSettled(st, out)
	}
	if out.Err == nil && st.err != nil {
		r.logFailure(st, out.State)
	}
	if out.Err == nil && out.State == dbq.StatePoison {
		r.poisoned(st.job.task, st.err)
	}
}

// spent takes in tasks that a checkout moved to POISON.
func (r *run) spent(tasks []dbq.Task) {
	for i := range tasks {
		t := &tasks[i]
		before := ""
		if t.TakenOver != nil {
			before = t.TakenOver.Worker
		}
		r.log.gather(lineSpent, t.ID, before, "from", before)
		r.poisoned(*t, nil)
	}
}

func (r *run) poisoned(t dbq.Task, err error) {
	r.poisons.Add(1)
	if r.cfg.OnPoison != nil {
		r.hooks.add(poisoning{t, err})
	}
}

func (h *hooks) add(p poisoning) {
	h.mu.Lock()
	if len(h.waiting) < hooksMost {
		h.waiting = append(h.waiting, p)
	} else {
		h.missed++
	}
	h.mu.Unlock()
	h.wake()
}

func (h *hooks) wake() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// close makes run end after what waits.
func (h *hooks) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.wake()
}

// next takes what waits, and whether there may be more to come.
func (h *hooks) next() (ps []poisoning, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ps, h.waiting = h.waiting, nil
	return ps, !h.closed
}

// run calls OnPoison until close, and no longer than Grace after the hooks' context has ended.
func (h *hooks) run() {
	late, stop := context.WithCancel(context.Background())
	defer stop()
	detach := context.AfterFunc(h.r.ending.overtime, func() {
		select {
		case <-time.After(h.r.cfg.Grace):
			stop()
		case <-late.Done():
		}
	})
	defer detach()
	for more := true; more; {
		var ps []poisoning
		if ps, more = h.next(); len(ps) == 0 && more {
			<-h.more
			continue
		}
		for _, p := range ps {
			if late.Err() != nil || !h.call(late, p) {
				h.miss(1)
			}
		}
	}
	if n := h.miss(0); n > 0 {
		h.r.log.write(lineNoHook, "tasks", n)
	}
}

func (h *hooks) miss(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missed += n
	return h.missed
}

// call calls OnPoison, in a goroutine of its own since it may never return. It is false when it has not in time.
func (h *hooks) call(late context.Context, p poisoning) bool {
	done := make(chan struct{})
	h.running.Add(1)
	go func() {
		defer close(done)
		defer h.running.Add(-1)
		defer func() {
			if v := recover(); v != nil {
				h.r.log.each(lineHook, aboutTask(&p.task, "panic", cutText(fmt.Sprint(v)),
					"stack", string(debug.Stack()))...)
			}
		}()
		h.r.cfg.OnPoison(h.r.ending.overtime, p.task, p.err)
	}()
	select {
	case <-done:
	case <-late.Done():
		select {
		case <-done:
		default:
			return false
		}
	}
	return true
}
