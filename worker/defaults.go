package worker

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
)

const (
	defaultConcurrency = 10
	defaultBatch       = 1000
	defaultLease       = 30 * time.Second
	minLease           = 100 * time.Millisecond
	defaultCheck       = 15 * time.Second
	minCheck           = 10 * time.Millisecond
	defaultPollMin     = 10 * time.Millisecond
	defaultPollMax     = 2 * time.Second
	defaultDrain       = 30 * time.Second
	defaultGrace       = 5 * time.Second
	defaultBatchSize   = 100
	defaultCompleted   = 24 * time.Hour     // kept
	defaultAttempts    = 7 * 24 * time.Hour // kept
	batchWait          = 5 * time.Millisecond
)

// withDefaults checks the fields and fills in those that are zero.
func (w Worker) withDefaults() (Worker, error) {
	if w.Queue == nil || (w.Handler == nil) == (w.BatchHandler == nil) {
		return w, fmt.Errorf("%w: Queue and one of Handler and BatchHandler are required", ErrConfig)
	}
	if w.BatchHandler != nil && len(w.Middleware) > 0 {
		return w, fmt.Errorf("%w: Middleware is for a Handler, and this is a BatchHandler", ErrConfig)
	}
	if min(w.Concurrency, w.Batch, w.BatchSize, w.MaxAttempts) < 0 ||
		min(w.Lease, w.PollMin, w.PollMax, w.DrainTimeout, w.Timeout, w.Grace, w.Check) < 0 {
		return w, fmt.Errorf("%w: a negative field", ErrConfig)
	}
	w.Concurrency = cmp.Or(w.Concurrency, defaultConcurrency)
	w.Batch = max(cmp.Or(w.Batch, defaultBatch), 1)
	w.Lease = cmp.Or(w.Lease, defaultLease)
	w.PollMin = cmp.Or(w.PollMin, defaultPollMin)
	w.PollMax = max(cmp.Or(w.PollMax, defaultPollMax), w.PollMin)
	w.DrainTimeout = cmp.Or(w.DrainTimeout, defaultDrain)
	w.Grace = cmp.Or(w.Grace, defaultGrace)
	w.BatchSize = cmp.Or(w.BatchSize, min(defaultBatchSize, w.Batch))
	if w.Lease < minLease || w.Lease > dbq.MaxLease {
		return w, fmt.Errorf("%w: a lease of %v, it must be between %v and %v", ErrConfig, w.Lease, minLease, dbq.MaxLease)
	}
	if w.Check = cmp.Or(w.Check, defaultCheck); w.Check < minCheck || w.Check > dbq.MaxLease {
		return w, fmt.Errorf("%w: a Check every %v, it must be between %v and %v", ErrConfig, w.Check, minCheck, dbq.MaxLease)
	}
	if k := w.Retention; min(k.Completed, k.Poison, k.Parked, k.Attempts) < 0 {
		return w, fmt.Errorf("%w: a negative time in Retention", ErrConfig)
	}
	w.Retention.Completed = cmp.Or(w.Retention.Completed, defaultCompleted)
	w.Retention.Attempts = cmp.Or(w.Retention.Attempts, defaultAttempts)
	if w.Paused && w.Unlisted {
		return w, fmt.Errorf("%w: an Unlisted worker that begins Paused could not be resumed; use a Switch", ErrConfig)
	}
	if w.Batch > dbq.MaxCheckout {
		return w, fmt.Errorf("%w: a batch of %d, at most %d are allowed", ErrConfig, w.Batch, dbq.MaxCheckout)
	}
	if w.BatchSize > w.Batch {
		return w, fmt.Errorf("%w: a BatchSize of %d is more than Batch, which is %d", ErrConfig, w.BatchSize, w.Batch)
	}
	if w.Backoff == nil {
		w.Backoff = dbq.Exponential(time.Second, time.Hour)
	}
	if w.Logger == nil {
		w.Logger = access.Of(w.Queue.Client()).Logger
	}
	w.Logger = w.Logger.With("queue", w.Queue.Name())
	if n := utf8.RuneCountInString(w.ID); n > dbq.MaxWorkerID {
		return w, fmt.Errorf("%w: an ID of %d characters, at most %d are allowed", ErrConfig, n, dbq.MaxWorkerID)
	}
	w.History = cmp.Or(w.History, dbq.HistoryAll)
	return w, nil
}
