package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
)

// poisonKeep is the maximum number of waiting calls of OnPoison.
const poisonKeep = 10_000

// poisoned is a task that went to POISON, and its handler's error.
type poisoned struct {
	task *dbq.Task
	err  error
}

// poisonHook calls OnPoison for one task after another. Only the end of the run waits for it.
type poisonHook struct {
	*env
	queue batcher[poisoned]
	// running is the number of calls that have not returned: the current one, or at the end one that ignored the end of
	// its context.
	running atomic.Int64
	missed  atomic.Int64 // calls for which there was no room or no time
}

func newPoisonHook(e *env) *poisonHook {
	room := poisonKeep
	if e.cfg.OnPoison == nil {
		room = 0
	}
	return &poisonHook{env: e, queue: newBatcher[poisoned](room, 1, 0)}
}

// add queues a call of OnPoison for a task. It does not wait.
func (h *poisonHook) add(t dbq.Task, err error) {
	if h.cfg.OnPoison == nil {
		return
	}
	select {
	case h.queue.in <- poisoned{&t, err}:
	default:
		h.missed.Add(1)
	}
}

// stop makes run return after the calls added before.
func (h *poisonHook) stop() { h.queue.stop() }

// run calls OnPoison until stop, and no longer than Grace after its context has ended.
func (h *poisonHook) run() {
	late, stop := context.WithCancel(context.Background())
	defer stop()
	detach := context.AfterFunc(h.shutdown.overtime, func() {
		select {
		case <-time.After(h.cfg.Grace):
			stop()
		case <-late.Done():
		}
	})
	defer detach()
	h.queue.run(func(batch []poisoned) {
		for _, p := range batch {
			if late.Err() != nil || !h.call(late, p) {
				h.missed.Add(1)
			}
		}
	})
	if n := h.missed.Load(); n > 0 {
		h.log.write(lineNoHook, "tasks", n)
	}
}

// call calls OnPoison in its own goroutine, because it may never return. It returns false if OnPoison has not
// returned in time.
func (h *poisonHook) call(late context.Context, p poisoned) bool {
	done := make(chan struct{})
	h.running.Add(1)
	go func() {
		defer close(done)
		defer h.running.Add(-1)
		defer func() {
			if v := recover(); v != nil {
				h.log.each(lineHook, aboutTask(p.task, "panic", bounds.Brief(fmt.Sprint(v)), "stack", string(debug.Stack()))...)
			}
		}()
		h.cfg.OnPoison(h.shutdown.overtime, *p.task, p.err)
	}()
	select {
	case <-done:
		return true
	case <-late.Done():
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
