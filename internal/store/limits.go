package store

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Limits are the limits of a queue. The zero value is none.
type Limits struct {
	Leased    int  // tasks in PROCESSING; 0 is no limit
	Rate      Rate // starts
	PerKey    bool // the keys are served in turn
	KeyLeased int  // tasks of each key in PROCESSING; 0 is no limit
	KeyRate   Rate // starts of each key
	Order     Order
}

// Order is whether the tasks of each key run one after the other, in the order of their ids.
type Order string

// The orders. A task that waits for an operator, in POISON or parked, keeps the later ones of its key waiting under
// OrderBlock, and is passed over under OrderSkip.
const (
	OrderNone  Order = ""
	OrderBlock Order = "block"
	OrderSkip  Order = "skip"
)

// perKey is how many tasks of each key may be in PROCESSING; 0 is no limit.
func (l Limits) perKey() int {
	if l.Order != OrderNone {
		return 1
	}
	return l.KeyLeased
}

// The largest numbers of a limit.
const (
	maxLeased  = 1_000_000
	maxStarts  = 1_000_000
	maxRatePer = 365 * 24 * time.Hour
)

// Check returns ErrOption for limits that are out of range.
func (l Limits) Check() error {
	switch {
	case l.Leased < 0 || l.Leased > maxLeased:
		return fmt.Errorf("%w: %d leased tasks; a limit is 1 to %d, or 0 for none", errs.ErrOption, l.Leased, maxLeased)
	case l.KeyLeased < 0 || l.KeyLeased > maxLeased:
		return fmt.Errorf("%w: %d tasks of a key leased; a limit is 1 to %d, or 0 for none",
			errs.ErrOption, l.KeyLeased, maxLeased)
	case l.Order != OrderNone && l.Order != OrderBlock && l.Order != OrderSkip:
		return fmt.Errorf("%w: an order %q; it is %q, %q or none", errs.ErrOption, l.Order, OrderBlock, OrderSkip)
	}
	if err := l.Rate.check(); err != nil {
		return err
	}
	if err := l.KeyRate.check(); err != nil {
		return fmt.Errorf("%w (per key)", err)
	}
	return nil
}

// LimitFields are limits as JSON, which the HTTP API has too. The tags are its limits.
type LimitFields struct {
	Leased        int              `json:"leased,omitempty" minimum:"0"`
	RateStarts    int              `json:"rate_starts,omitempty" minimum:"0"`
	RatePer       duration.Seconds `json:"rate_per_seconds,omitempty" minimum:"0"`
	RateBurst     int              `json:"rate_burst,omitempty" minimum:"0"`
	PerKey        bool             `json:"per_key,omitempty"`
	KeyLeased     int              `json:"key_leased,omitempty" minimum:"0"`
	KeyRateStarts int              `json:"key_rate_starts,omitempty" minimum:"0"`
	KeyRatePer    duration.Seconds `json:"key_rate_per_seconds,omitempty" minimum:"0"`
	KeyRateBurst  int              `json:"key_rate_burst,omitempty" minimum:"0"`
	Order         Order            `json:"order,omitempty" enum:"block,skip,"`
}

// Fields returns the limits as JSON has them.
func (l Limits) Fields() LimitFields {
	return LimitFields{
		l.Leased, l.Rate.Starts, duration.Seconds(l.Rate.Per), l.Rate.Burst,
		l.PerKey || l.perKey() > 0 || l.KeyRate != (Rate{}), l.KeyLeased,
		l.KeyRate.Starts, duration.Seconds(l.KeyRate.Per), l.KeyRate.Burst, l.Order,
	}
}

// Limits is the reverse of Limits.Fields.
func (f LimitFields) Limits() Limits {
	return Limits{f.Leased, Rate{f.RateStarts, time.Duration(f.RatePer), f.RateBurst}, f.PerKey, f.KeyLeased,
		Rate{f.KeyRateStarts, time.Duration(f.KeyRatePer), f.KeyRateBurst}, f.Order}
}

// limitRecord is the record of a queue with limits, as readable JSON. A checkout of the queue locks it first.
type limitRecord struct {
	LimitFields
	Full  int64  `json:"full_at,omitempty"`   // when all of the rate's burst is free again, in nanoseconds since 1970
	After string `json:"after_key,omitempty"` // the last key that was served; the next turn begins after it
	// AfterBytes is After if that is not UTF-8: programs in other languages enqueue, too, and SQLite checks no text.
	AfterBytes string `json:"after_key_hex,omitempty"`
}

func parseLimits(r Record) (out limitRecord, l Limits, err error) {
	if err = json.Unmarshal([]byte(r.Value), &out); err == nil {
		l = out.Limits()
		err = l.Check()
	}
	if after, bad := hex.DecodeString(out.AfterBytes); bad == nil && len(after) > 0 {
		out.After, out.AfterBytes = string(after), ""
	}
	if err != nil {
		err = fmt.Errorf("the limits of queue %q in the database cannot be read (%w): set them again", r.Name, err)
	}
	return out, l, err
}

// Limits returns the limits of a queue, and whether it has any.
func (s *Store) Limits(ctx context.Context, queue string) (l Limits, limited bool, err error) {
	if err = limits.QueueName(queue); err != nil {
		return l, false, err
	}
	r, limited, err := s.GetKV(ctx, dialect.LimitNamespace, queue)
	if limited && err == nil {
		_, l, err = parseLimits(r)
	}
	return l, limited, err
}

// Ordered reports whether the tasks of each key of a queue may run one after the other. It errs on the side of true.
func (s *Store) Ordered(ctx context.Context, queue string) bool {
	l, _, err := s.Limits(ctx, queue)
	return err != nil || l.Order != OrderNone
}

// OrderedTx is Ordered in the caller's transaction.
func (s *Store) OrderedTx(ctx context.Context, tx sqlrun.Tx, queue string) (bool, error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return false, err
	}
	rows, err := sqlrun.QueryAs[Record](ctx, s.sql, conn, s.sql.Texts.GetKV,
		dialect.Args{"namespace": dialect.LimitNamespace, "name": queue})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	_, l, err := parseLimits(rows[0])
	return err != nil || l.Order != OrderNone, nil
}

// ListLimits returns the limits of all queues that have any, by queue.
func (s *Store) ListLimits(ctx context.Context) (map[string]Limits, error) {
	records, err := s.ListKV(ctx, dialect.LimitNamespace)
	out := make(map[string]Limits, len(records))
	for _, r := range records {
		if _, out[r.Name], err = parseLimits(r); err != nil {
			return nil, err
		}
	}
	return out, err
}

// SetLimits changes the limits of a queue to those that change returns, or removes them if it returns the zero value.
// It waits for a checkout under the earlier limits. It can call change several times.
func (s *Store) SetLimits(ctx context.Context, queue string, change func(Limits) (Limits, error)) error {
	if err := limits.QueueName(queue); err != nil {
		return err
	}
	run := func(ctx context.Context, f func(context.Context, dialect.Conn) error) error {
		return s.limitsTx(ctx, queue, f)
	}
	err := s.writeBy(ctx, run, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		old, exists, _, err := s.lockLimits(ctx, conn, queue)
		if err != nil {
			return err
		}
		var rec limitRecord
		var was Limits
		if exists { // unreadable limits are replaced
			rec, was, _ = parseLimits(old)
		}
		l, err := change(was)
		if err == nil {
			err = l.Check()
		}
		if err == nil {
			err = s.changeKeyRate(ctx, conn, queue, old, was.KeyRate, l.KeyRate)
		}
		if err != nil {
			return err
		}
		if l == (Limits{}) {
			if !exists {
				return nil
			}
			_, err = s.sql.Exec(ctx, conn, s.sql.Texts.DropKV, dialect.Args{"namespace": dialect.LimitNamespace, "name": queue})
		} else {
			rec.LimitFields = l.Fields()
			if l.Rate != was.Rate {
				rec.Full = min(rec.Full, l.Rate.latest(old.Now*int64(time.Microsecond)))
			}
			err = s.putLimits(ctx, conn, old, exists, queue, rec)
		}
		if err != nil {
			return err
		}
		return s.auditLimits(ctx, conn, was, l)
	})
	if errors.Is(err, errAudited) {
		err = nil
	}
	s.limitState(queue).set(true) // if there are none, the next checkout finds out
	return err
}

// putLimits writes a record that the transaction has locked, or a new one. A locked one is written together with the
// next statement or the commit: nothing can prevent it.
func (s *Store) putLimits(
	ctx context.Context, conn dialect.Conn, old Record, exists bool, queue string, rec limitRecord,
) error {
	if !utf8.ValidString(rec.After) {
		rec.After, rec.AfterBytes = "", hex.EncodeToString([]byte(rec.After))
	}
	value, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return s.putKV(ctx, conn, old, exists, dialect.LimitNamespace, queue, string(value))
}

// putKV writes a record that the transaction has locked, or a new one.
func (s *Store) putKV(
	ctx context.Context, conn dialect.Conn, old Record, exists bool, namespace, name, value string,
) error {
	args, err := kvArgs(namespace, name, value, old.Version, 0)
	if err != nil {
		return err
	}
	if exists {
		_, err := s.sql.ExecLater(ctx, conn, s.sql.Texts.SetKV, args)
		return err
	}
	n, err := s.sql.Exec(ctx, conn, s.sql.Texts.AddKV, args)
	if err == nil && n != 1 || s.sql.Class(err) == dialect.Duplicate {
		err = errKVBusy // another client has added it at the same time
	}
	return err
}

// limitsAtOnce is how many transactions of a client may be in limitsTx of a queue: one that has the lock, and one that
// the server lets in as soon as the first one commits. More would wait there, each with a connection, until the other
// queues had none left.
const limitsAtOnce = 2

// limitsTx runs f in a transaction for lockLimits of a queue. The server ends it if the client is silent for ten
// seconds: a client that stops would otherwise keep all checkouts of the queue waiting.
func (s *Store) limitsTx(ctx context.Context, queue string, f func(context.Context, dialect.Conn) error) (err error) {
	if !s.sql.Server.OneWriter { // there, all share one connection anyway
		leave, failed := s.limitState(queue).enter(ctx)
		if failed != nil {
			return failed
		}
		began := time.Now()
		defer func() { leave(err, sqlrun.Silent(err) || s.IsConflict(err) && time.Since(began) >= lockWaited) }()
	}
	set, restore := s.sql.Texts.LimitIdle, s.sql.Texts.EndLimitIdle
	if restore != "" {
		return s.sql.LockedTx(ctx, dialect.Lock{Take: set, Free: restore}, f)
	}
	return s.sql.Tx(ctx, func(ctx context.Context, conn dialect.Conn) error {
		if set != "" {
			if _, err := s.sql.ExecLater(ctx, conn, set, nil); err != nil {
				return err
			}
		}
		return f(ctx, conn)
	})
}

// lockLimits locks the limits of a queue until its transaction, a limitsTx, ends, and then reads them, and whether the
// queue is paused.
func (s *Store) lockLimits(ctx context.Context, conn dialect.Conn, queue string) (
	r Record, exists, paused bool, err error,
) {
	locked, err := s.sql.ExecLater(ctx, conn, s.sql.Texts.LockKV,
		dialect.Args{"namespace": dialect.LimitNamespace, "name": queue})
	if err != nil {
		return r, false, false, err
	}
	rows, err := sqlrun.QueryAs[Record](ctx, s.sql, conn, s.sql.Texts.QueueKV, dialect.Args{"name": queue})
	if err != nil || *locked == 0 { // another client may have added it since
		return r, false, false, err
	}
	for _, row := range rows {
		if row.Namespace == dialect.LimitNamespace {
			r, exists = row, true
		} else {
			paused = true
		}
	}
	return r, exists, paused, nil
}

// limitState is what this client knows about the limits of a queue. No promise depends on it.
type limitState struct {
	limited atomic.Bool
	checked atomic.Int64 // when the queue was found to have none, in nanoseconds
	refused atomic.Bool  // the last checkout found nothing that it might take

	once sync.Once
	gate chan struct{} // has an element for each limitsTx
	late atomic.Pointer[lateError]
}

// lateError is the error of a limitsTx that met a silent server, or waited for a lock in vain, and when it ended.
type lateError struct {
	at  time.Time
	err error
}

// enter waits until a limitsTx may begin, and returns what to call with its error, and whether that came late. A caller
// that has waited for another one's late error takes that as its own, instead of waiting as long once more.
func (st *limitState) enter(ctx context.Context) (leave func(err error, late bool), err error) {
	came := time.Now()
	st.once.Do(func() { st.gate = make(chan struct{}, limitsAtOnce) })
	select {
	case st.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if last := st.late.Load(); last != nil && last.at.Sub(came) >= lockWaited {
		<-st.gate
		return nil, &sqlrun.TxError{Err: last.err}
	}
	return func(err error, late bool) {
		if late {
			st.late.Store(&lateError{time.Now(), err})
		}
		<-st.gate
	}, nil
}

func (s *Store) limitState(queue string) *limitState {
	return s.sql.Remembered("limits "+queue, &limitState{}).(*limitState)
}

func (st *limitState) set(limited bool) {
	st.limited.Store(limited)
	st.refused.Store(false)
	if !limited {
		st.checked.Store(time.Now().UnixNano())
	}
}

// limitsKnownFor is how long a client relies on its knowledge that a queue has no limits, while its checkouts find
// nothing. Those of a queue that has limits find nothing meanwhile.
const limitsKnownFor = time.Second

// maybeLimited finds out whether a queue in which a checkout found nothing has limits.
func (s *Store) maybeLimited(ctx context.Context, queue string) (bool, error) {
	st := s.limitState(queue)
	if time.Since(time.Unix(0, st.checked.Load())) < limitsKnownFor {
		return false, nil
	}
	_, limited, err := s.GetKV(ctx, dialect.LimitNamespace, queue)
	if err == nil {
		st.set(limited)
	}
	return limited, err
}

// KnownLimited reports whether this client knows that a queue has limits, so that an ended attempt may free a slot for
// another task.
func (s *Store) KnownLimited(queue string) bool { return s.limitState(queue).limited.Load() }
