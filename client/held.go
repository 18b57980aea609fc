package client

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/handling"
)

// held is a task that the worker holds, from its checkout until its outcome is stored or its lease is lost. It is the
// attempt of its handler's context.
type held struct {
	run    *run
	task   dbq.Task
	cancel context.CancelCauseFunc // ends the handler's context

	// The following are guarded by run.mu.
	lease    string // after the last extension
	until    time.Time
	expires  *time.Timer // calls expire at until
	progress []byte      // what the handler has reported; nil for nothing
	renewing bool        // an extension is under way, which may change lease
	settling bool        // the request with its outcome is under way
	finished bool        // the handler has returned, or was not called
	expired  bool        // by the worker's clock
	lost     bool        // according to the server
}

var _ handling.Attempt = (*held)(nil)

// heldOf returns the task that a handler's context is about, or nil.
func heldOf(ctx context.Context) *held {
	h, _ := handling.AttemptOf(ctx).(*held)
	return h
}

// SetProgress implements handling.Attempt.
func (h *held) SetProgress(progress []byte) {
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	h.progress = progress
}

// Progress implements handling.Attempt.
func (h *held) Progress() []byte {
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	if h.progress != nil {
		return h.progress
	}
	return h.task.Progress
}

// extension returns the lease and the progress as they are sent. Each request carries the last progress, so one that
// the server serves late puts back nothing for long. The caller holds run.mu.
func (h *held) extension() wireExtension {
	e := wireExtension{Lease: h.lease}
	if h.progress != nil {
		e.Progress, e.ProgressBase64 = split(h.progress)
	}
	return e
}

// expire ends the handler's context if the lease could not be extended in time.
func (h *held) expire() {
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	if rest := time.Until(h.until); rest > 0 { // it was extended meanwhile
		h.expires.Reset(rest)
		return
	}
	h.expired = true
	h.cancel(dbq.ErrLeaseLost)
}

// extended records an extension. The caller holds run.mu.
func (h *held) extended(lease string, until time.Time) {
	h.lease, h.until = lease, until
	if h.finished {
		h.expired = false // its outcome can be stored
	}
}

// lose records that the server no longer counts the task as held. The caller holds run.mu.
func (h *held) lose() {
	h.lost = true
	h.cancel(dbq.ErrLeaseLost)
}
