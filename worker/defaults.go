package worker

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/internal/store"
)

const (
	defaultConcurrency = 10
	defaultMaxCheckout = 1000
	defaultLease       = 30 * time.Second
	minLease           = 100 * time.Millisecond
	defaultReport      = 15 * time.Second
	minReport          = 10 * time.Millisecond
	defaultPollMin     = 10 * time.Millisecond
	defaultPollMax     = 2 * time.Second
	defaultDrain       = 30 * time.Second
	defaultGrace       = 5 * time.Second
	defaultBatchSize   = 100
	batchWait          = 5 * time.Millisecond
)

// withDefaults checks the fields and sets those that are zero to their defaults.
func (w Worker) withDefaults() (Worker, error) {
	_, inDatabase := w.Queue.(*dbq.Queue)
	q := reflect.ValueOf(w.Queue)
	if w.Queue == nil || q.Kind() == reflect.Pointer && q.IsNil() || (w.Handler == nil) == (w.BatchHandler == nil) {
		return w, fmt.Errorf("%w: Queue and one of Handler and BatchHandler are required", ErrConfig)
	}
	if w.BatchHandler != nil && len(w.Middleware) > 0 {
		return w, fmt.Errorf("%w: Middleware needs a Handler, not a BatchHandler", ErrConfig)
	}
	if err := cmp.Or(
		notNegative("Concurrency", w.Concurrency), notNegative("MaxCheckout", w.MaxCheckout),
		notNegative("BatchSize", w.BatchSize), notNegative("MaxAttempts", w.MaxAttempts),
		notNegative("Lease", w.Lease), notNegative("PollMin", w.PollMin),
		notNegative("PollMax", w.PollMax), notNegative("DrainTimeout", w.DrainTimeout), notNegative("Timeout", w.Timeout),
		notNegative("Grace", w.Grace), notNegative("ReportInterval", w.ReportInterval), notNegative("Weight", w.Weight),
		notNegative("Retention.Completed", w.Retention.Completed), notNegative("Retention.Poison", w.Retention.Poison),
		notNegative("Retention.Cancelled", w.Retention.Cancelled), notNegative("Retention.Parked", w.Retention.Parked),
		notNegative("Retention.Attempts", w.Retention.Attempts),
	); err != nil {
		return w, err
	}
	w.Concurrency = cmp.Or(w.Concurrency, defaultConcurrency)
	w.MaxCheckout = max(cmp.Or(w.MaxCheckout, defaultMaxCheckout), 1)
	w.Lease = cmp.Or(w.Lease, defaultLease)
	w.PollMin = cmp.Or(w.PollMin, defaultPollMin)
	w.PollMax = max(cmp.Or(w.PollMax, defaultPollMax), w.PollMin)
	w.DrainTimeout = cmp.Or(w.DrainTimeout, defaultDrain)
	w.Grace = cmp.Or(w.Grace, defaultGrace)
	w.BatchSize = cmp.Or(w.BatchSize, min(defaultBatchSize, w.MaxCheckout))
	w.ReportInterval = cmp.Or(w.ReportInterval, defaultReport)
	if err := cmp.Or(
		within("Lease", w.Lease, minLease, dbq.MaxLease), within("ReportInterval", w.ReportInterval, minReport, dbq.MaxLease),
		within("MaxCheckout", w.MaxCheckout, 1, dbq.MaxCheckout), within("BatchSize", w.BatchSize, 1, w.MaxCheckout),
		within("the length of ID", utf8.RuneCountInString(w.ID), 0, dbq.MaxWorkerID),
	); err != nil {
		return w, err
	}
	w.Retention = dbq.Retention(store.Retention(w.Retention).Or(maintenance.DefaultRetention))
	if !inDatabase {
		if err := needsDatabase(&w); err != nil {
			return w, err
		}
	}
	if w.Backoff == nil {
		w.Backoff = dbq.DefaultBackoff
	}
	w.Logger = w.logger().With("queue", w.Queue.Name())
	w.History = cmp.Or(w.History, dbq.HistoryAll)
	return w, nil
}

// logger returns Logger or its default.
func (w *Worker) logger() *slog.Logger {
	if w.Logger != nil {
		return w.Logger
	}
	switch q := w.Queue.(type) {
	case *dbq.Queue:
		return access.Of(q.Client()).Logger
	case remoteQueue:
		return q.Remote().Logger
	}
	return slog.Default()
}

// needsDatabase refuses a worker without a database that needs one.
func needsDatabase(w *Worker) error {
	what := ""
	if needsTx(w.Handler) {
		what = "a TxHandler"
	}
	if m, ok := w.Handler.(*Mux); ok && what != "" {
		what = "the handlers of " + strings.Join(m.txKinds(), ", ")
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: %s: this needs a worker with access to the database", ErrConfig, what)
}

func notNegative[T int | time.Duration](name string, value T) error {
	if value < 0 {
		return fmt.Errorf("%w: %s is %v, it must be at least 0", ErrConfig, name, value)
	}
	return nil
}

func within[T int | time.Duration](name string, value, least, most T) error {
	return bounds.Range(name, value, least, most, ErrConfig)
}
