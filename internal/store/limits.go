package store

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// Limits are the limits of a queue. The zero value is none.
type Limits struct {
	Concurrency    int  // tasks in PROCESSING; 0 is no limit
	Rate           Rate // starts
	PerKey         bool // the keys are served in turn
	KeyConcurrency int  // tasks of each key in PROCESSING; 0 is no limit
	KeyRate        Rate // starts of each key
	Order          Order
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

// QueueLimits are the limits of a queue and where they come from.
type QueueLimits struct {
	Limits           // those in force
	Declared *Limits // by a program; nil is none
	Changed  bool    // an operator has changed the limits: a declaration leaves them alone until they are reset
	// Allowed is the number of starts that Rate allowed when the limits were read.
	Allowed Allowance
}

// perKey is how many tasks of each key may be in PROCESSING; 0 is no limit.
func (l Limits) perKey() int {
	if l.Order != OrderNone {
		return 1
	}
	return l.KeyConcurrency
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
	case l.Concurrency < 0 || l.Concurrency > maxLeased:
		return fmt.Errorf("%w: %d leased tasks; a limit is 1 to %d, or 0 for none", errs.ErrOption, l.Concurrency, maxLeased)
	case l.KeyConcurrency < 0 || l.KeyConcurrency > maxLeased:
		return fmt.Errorf("%w: %d tasks of a key leased; a limit is 1 to %d, or 0 for none",
			errs.ErrOption, l.KeyConcurrency, maxLeased)
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
	Concurrency    int              `json:"concurrency,omitempty" minimum:"0"`
	RateStarts     int              `json:"rate_starts,omitempty" minimum:"0"`
	RatePer        duration.Seconds `json:"rate_per_seconds,omitempty" minimum:"0"`
	RateBurst      int              `json:"rate_burst,omitempty" minimum:"0"`
	PerKey         bool             `json:"per_key,omitempty"`
	KeyConcurrency int              `json:"key_concurrency,omitempty" minimum:"0"`
	KeyRateStarts  int              `json:"key_rate_starts,omitempty" minimum:"0"`
	KeyRatePer     duration.Seconds `json:"key_rate_per_seconds,omitempty" minimum:"0"`
	KeyRateBurst   int              `json:"key_rate_burst,omitempty" minimum:"0"`
	Order          Order            `json:"order,omitempty" enum:"block,skip,"`
}

// Fields returns the limits as JSON has them.
func (l Limits) Fields() LimitFields {
	return LimitFields{
		l.Concurrency, l.Rate.Starts, duration.Seconds(l.Rate.Per), l.Rate.Burst,
		l.PerKey || l.perKey() > 0 || l.KeyRate != (Rate{}), l.KeyConcurrency,
		l.KeyRate.Starts, duration.Seconds(l.KeyRate.Per), l.KeyRate.Burst, l.Order,
	}
}

// Limits is the reverse of Limits.Fields.
func (f LimitFields) Limits() Limits {
	return Limits{f.Concurrency, Rate{f.RateStarts, time.Duration(f.RatePer), f.RateBurst}, f.PerKey, f.KeyConcurrency,
		Rate{f.KeyRateStarts, time.Duration(f.KeyRatePer), f.KeyRateBurst}, f.Order}
}

// limitRecord is the record of a queue with limits, as readable JSON. A checkout of the queue locks it first.
type limitRecord struct {
	LimitFields
	Declared *LimitFields `json:"declared,omitempty"`
	Changed  bool         `json:"changed,omitempty"`

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

// queueLimits returns limits that parseLimits has read as l.
func (r *limitRecord) queueLimits(l Limits) QueueLimits {
	q := QueueLimits{Limits: l, Changed: r.Changed}
	if r.Declared != nil {
		declared := r.Declared.Limits()
		q.Declared = &declared
	}
	return q
}

// Limits returns the limits of a queue.
func (s *Store) Limits(ctx context.Context, queue string) (q QueueLimits, err error) {
	if err = bounds.QueueName(queue); err != nil {
		return q, err
	}
	r, limited, err := s.GetKV(ctx, NamespaceLimit, queue)
	if !limited || err != nil {
		return q, err
	}
	rec, l, err := parseLimits(r)
	q = rec.queueLimits(l)
	q.Allowed = l.Rate.allowance(r.Now*int64(time.Microsecond), rec.Full)
	return q, err
}

// Ordered reports whether the tasks of each key of a queue may run one after the other. It errs on the side of true.
func (s *Store) Ordered(ctx context.Context, queue string) bool {
	l, err := s.Limits(ctx, queue)
	return err != nil || l.Order != OrderNone
}

// OrderedTx is Ordered in the caller's transaction.
func (s *Store) OrderedTx(ctx context.Context, tx sqlrun.Tx, queue string) (bool, error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return false, err
	}
	rows, err := sqlrun.QueryAs[Record](ctx, s.sql, conn, s.sql.Texts.GetKV,
		dialect.Args{"namespace": NamespaceLimit, "name": queue})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	_, l, err := parseLimits(rows[0])
	return err != nil || l.Order != OrderNone, nil
}

// ListLimits returns the limits of all queues that have any, by queue.
func (s *Store) ListLimits(ctx context.Context) (map[string]QueueLimits, error) {
	records, err := s.ListKV(ctx, NamespaceLimit)
	out := make(map[string]QueueLimits, len(records))
	for _, r := range records {
		rec, l, err := parseLimits(r)
		if err != nil {
			return nil, err
		}
		q := rec.queueLimits(l)
		q.Allowed = l.Rate.allowance(r.Now*int64(time.Microsecond), rec.Full)
		out[r.Name] = q
	}
	return out, err
}

// SetLimits changes the limits of a queue as change does, which it can call several times. The record goes once there
// are neither limits nor declared ones. SetLimits waits for a checkout under the earlier limits.
func (s *Store) SetLimits(ctx context.Context, queue string, change func(*QueueLimits) error) error {
	if err := bounds.QueueName(queue); err != nil {
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
		if exists {
			var unreadable error
			if rec, was, unreadable = parseLimits(old); unreadable != nil { // it is replaced
				rec, was = limitRecord{}, Limits{}
			}
		}
		next := rec.queueLimits(was)
		if err = change(&next); err == nil {
			err = next.Check()
		}
		if err == nil && next.Declared != nil {
			err = next.Declared.Check()
		}
		if err == nil {
			err = s.changeKeyRate(ctx, conn, queue, old, was.KeyRate, next.KeyRate)
		}
		switch none := next.Limits == (Limits{}) && next.Declared == nil; {
		case err != nil || none && !exists:
			return err
		case none:
			_, err = s.sql.Exec(ctx, conn, s.sql.Texts.DropKV, dialect.Args{"namespace": NamespaceLimit, "name": queue})
		default:
			err = s.putLimits(ctx, conn, old, exists, queue, rec.with(next, was, old.Now))
		}
		if err != nil || next.Limits == was {
			return err
		}
		return s.auditLimits(ctx, conn, was, next.Limits)
	})
	if errors.Is(err, errAudited) {
		err = nil
	}
	s.limitState(queue).set(true) // if there are none, the next checkout finds out
	return err
}

// with returns the record of other limits than those that were in force.
func (r limitRecord) with(next QueueLimits, was Limits, now int64) limitRecord {
	r.LimitFields, r.Declared, r.Changed = next.Fields(), nil, next.Changed
	if next.Declared != nil {
		declared := next.Declared.Fields()
		r.Declared = &declared
	}
	if next.Rate != was.Rate {
		r.Full = min(r.Full, next.Rate.latest(now*int64(time.Microsecond)))
	}
	return r
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
	return s.putKV(ctx, conn, old, exists, NamespaceLimit, queue, string(value))
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
	idle := s.sql.Texts.LimitIdle
	if idle.Free != "" {
		return s.sql.LockedTx(ctx, idle, f)
	}
	return s.sql.Tx(ctx, func(ctx context.Context, conn dialect.Conn) error {
		if idle.Take != "" { // together with what follows, which LockedTx would not do
			if _, err := s.sql.ExecLater(ctx, conn, idle.Take, nil); err != nil {
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
		dialect.Args{"namespace": NamespaceLimit, "name": queue})
	if err != nil {
		return r, false, false, err
	}
	rows, err := sqlrun.QueryAs[Record](ctx, s.sql, conn, s.sql.Texts.QueueKV, dialect.Args{"name": queue})
	if err != nil || *locked == 0 { // another client may have added it since
		return r, false, false, err
	}
	for _, row := range rows {
		if row.Namespace == NamespaceLimit {
			r, exists = row, true
		} else {
			paused = true
		}
	}
	return r, exists, paused, nil
}

// limitState has the facts that this client remembers about the limits of a queue. No promise depends on it.
type limitState struct {
	limited atomic.Bool
	checked atomic.Int64 // when the queue was found to have none, in nanoseconds
	refused atomic.Bool  // the last checkout found nothing that it might take

	once sync.Once
	gate chan struct{} // has an element for each limitsTx
	late atomic.Pointer[lateError]
}

// lateError is the error of a limitsTx that met a silent server, or waited for a lock without getting it, and when it
// ended.
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
	return s.sql.LoadOrStore("limits "+queue, &limitState{}).(*limitState)
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
	_, limited, err := s.GetKV(ctx, NamespaceLimit, queue)
	if err == nil {
		st.set(limited)
	}
	return limited, err
}

// KnownLimited reports whether this client knows that a queue has limits, so that an ended attempt may free a slot for
// another task.
func (s *Store) KnownLimited(queue string) bool { return s.limitState(queue).limited.Load() }

// Rate is a number of starts in a time, on average, of which up to Burst may come at once. The zero value is no limit.
type Rate struct {
	Starts int
	Per    time.Duration
	Burst  int
}

func (r Rate) check() error {
	switch {
	case r == Rate{}:
		return nil
	case r.Starts < 1 || r.Starts > maxStarts:
		return fmt.Errorf("%w: a rate of %d starts; it must be 1 to %d", errs.ErrOption, r.Starts, maxStarts)
	case r.Per < time.Millisecond || r.Per > maxRatePer:
		return fmt.Errorf("%w: a rate per %v; the time must be %v to %v", errs.ErrOption, r.Per, time.Millisecond, maxRatePer)
	case r.Burst < 1 || r.Burst > maxStarts:
		return fmt.Errorf("%w: a burst of %d starts; it must be 1 to %d", errs.ErrOption, r.Burst, maxStarts)
	case r.interval() > int64(math.MaxInt64/2/time.Duration(r.Burst)):
		return fmt.Errorf("%w: a burst of %d is too large for a rate of %d per %v", errs.ErrOption, r.Burst, r.Starts, r.Per)
	}
	return nil
}

// interval is the time of one start in nanoseconds, rounded up so that the rate is never exceeded.
func (r Rate) interval() int64 {
	if r == (Rate{}) {
		return 0
	}
	return (int64(r.Per) + int64(r.Starts) - 1) / int64(r.Starts)
}

// allowed returns how many starts the rate allows at now, and, if it is none, how long it is until the next. full is
// when all of the burst is free again; all times are in nanoseconds. This is the generic cell rate algorithm.
func (r Rate) allowed(now, full int64) (n int, wait time.Duration) {
	if r == (Rate{}) {
		return math.MaxInt, 0
	}
	room := r.latest(now) - r.believed(now, full)
	if room >= r.interval() {
		return int(room / r.interval()), 0
	}
	return 0, time.Duration(r.interval() - room)
}

// Allowance is the number of starts that a rate allows at a time. That of no rate is the zero value.
type Allowance struct {
	Starts int           // that it allows at once
	Wait   time.Duration // until it allows one, if Starts is 0
	// Used reports that the rate allowed no start a moment before: workers that wait for it take a moment to start the
	// next task, so Starts can be 1 meanwhile.
	Used bool
}

// usedFor is how long a start is still Used after it was allowed, at most: as long as workers pause between two polls.
const usedFor = 5 * time.Second

func (r Rate) allowance(now, full int64) (a Allowance) {
	if r == (Rate{}) {
		return a
	}
	a.Starts, a.Wait = r.allowed(now, full)
	before, _ := r.allowed(now-min(r.interval(), int64(usedFor)), full)
	a.Used = before == 0
	return a
}

// KeyAllowances returns the starts that a rate per key allows to some keys of a queue.
func (s *Store) KeyAllowances(ctx context.Context, queue string, rate Rate, keys []string) (
	map[string]Allowance, error) {
	now := int64(0)
	rows, err := read(sqlrun.Slow(ctx), s, func(ctx context.Context, conn dialect.Conn) (
		rows []sqlrun.KeyRateRow, err error) {
		if now, err = s.sql.Now(ctx, conn); err != nil {
			return nil, err
		}
		return sqlrun.QueryBatchAs[sqlrun.KeyRateRow](ctx, s.sql, conn, s.sql.Texts.KeyRates,
			dialect.Args{"queue": queue, "name": dialect.Col[string](keys)}, len(keys))
	})
	out := make(map[string]Allowance, len(keys))
	for _, key := range keys {
		out[key] = Allowance{Starts: rate.Burst}
	}
	for _, row := range rows {
		out[row.Key] = rate.allowance(now*int64(time.Microsecond), row.Full*int64(time.Microsecond))
	}
	return out, err
}

// after returns full after n starts at now.
func (r Rate) after(now, full int64, n int) int64 {
	if r == (Rate{}) || n == 0 {
		return full
	}
	return r.believed(now, full) + int64(n)*r.interval()
}

// ClockSkew is how far apart two readings of the database's clock may be: the clocks of a cluster's nodes differ, and a
// statement that began earlier may read what a later one wrote.
const ClockSkew = time.Minute

// believed returns full, or now if that is later, or if full is later than it can be: it was stored while the
// database's clock was ahead, and would stop the queue until that time.
func (r Rate) believed(now, full int64) int64 {
	if full < now || full > r.latest(now)+int64(ClockSkew) {
		return now
	}
	return full
}

// latest is the latest that full can be at now. After a change of the rate, a later one would keep tasks waiting as
// long as the earlier rate did.
func (r Rate) latest(now int64) int64 { return now + int64(r.Burst)*r.interval() }

// keyRates are the starts that the rate per key leaves to the keys that a checkout has met. The rows of the table
// key_rate are read and written under the lock of the queue's limits.
type keyRates struct {
	keys map[string]*keyRate
	wait time.Duration // until the first of the keys that were passed over may start a task; 0 means none was
}

// keyRate is the rate of one key during a checkout.
type keyRate struct {
	full    int64 // when all of its starts were free before the checkout, in nanoseconds
	left    int   // starts
	started int   // tasks
	at      int64 // its last start
}

// passedOver takes note of a key with due tasks that may start none for some time.
func (k *keyRates) passedOver(wait time.Duration) {
	if k.wait == 0 || wait < k.wait {
		k.wait = wait
	}
}

// readKeyRates reads how many starts are left to the keys of rows, which are due, as far as it does not know.
func (c *checkoutWithin) readKeyRates(ctx context.Context, rows []dialect.Row) error {
	rate := c.limits.KeyRate
	if rate == (Rate{}) {
		return nil
	}
	var unknown dialect.Col[string]
	for _, row := range rows {
		if key := keyOf(row.TaskKey); key != "" && c.rates.keys[key] == nil {
			c.rates.keys[key] = &keyRate{left: rate.Burst}
			unknown = append(unknown, key)
		}
	}
	found, err := sqlrun.QueryBatchAs[sqlrun.KeyRateRow](ctx, c.s.sql, c.conn, c.s.sql.Texts.KeyRates,
		dialect.Args{"queue": c.r.Queue, "name": unknown}, len(unknown))
	if err != nil {
		return err
	}
	for _, row := range found {
		if k := c.rates.keys[row.Key]; k != nil {
			k.full = row.Full * int64(time.Microsecond)
			k.left, _ = rate.allowed(c.now, k.full)
		}
	}
	for _, row := range rows {
		if k := c.rates.keys[keyOf(row.TaskKey)]; k != nil && k.left == 0 && k.started == 0 {
			_, wait := rate.allowed(c.now, k.full)
			c.rates.passedOver(wait)
		}
	}
	return nil
}

// startsOf is how many more tasks of a key the rate per key allows to start.
func (c *checkoutWithin) startsOf(key string) (n int, bounded bool) {
	k := c.rates.keys[key]
	if k == nil { // it has no key, or there is no rate per key
		return 0, false
	}
	return k.left, true
}

// countStart counts a task that has started.
func (c *checkoutWithin) countStart(row dialect.Row) {
	if k := c.rates.keys[keyOf(row.TaskKey)]; k != nil && row.State == state.Processing {
		k.left, k.started, k.at = k.left-1, k.started+1, max(k.at, row.Updated*int64(time.Microsecond))
	}
}

// writeKeyRates records the starts of this checkout.
func (c *checkoutWithin) writeKeyRates(ctx context.Context) error {
	rate := c.limits.KeyRate
	var keys dialect.Col[string]
	for key, k := range c.rates.keys {
		if k.started > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	full := make(dialect.Col[int64], len(keys))
	for i, key := range keys {
		k := c.rates.keys[key]
		at := max(k.at, c.now)
		k.full = rate.after(at, k.full, k.started)
		full[i] = (k.full + int64(time.Microsecond) - 1) / int64(time.Microsecond) // never early
		if k.left == 0 {
			_, wait := rate.allowed(at, k.full)
			c.rates.passedOver(wait)
		}
	}
	_, err := c.s.sql.ExecBatch(ctx, c.conn, c.s.sql.Texts.SetKeyRates,
		dialect.Args{"queue": c.r.Queue, "name": keys, "full_at": full}, len(keys))
	return err
}

// returnTakenOver counts the leases that the checkout has taken over since it had leased had tasks. Tasks whose keys
// have no start left go back to those that are due: their former leases have ended, and other keys' go on.
func (c *checkoutWithin) returnTakenOver(ctx context.Context, had int) error {
	if c.limits.KeyRate == (Rate{}) {
		return nil
	}
	taken := c.leased.Rows[had:]
	if err := c.readKeyRates(ctx, taken); err != nil {
		return err
	}
	var release []SettleRow
	at := time.Duration(0)
	kept := slices.DeleteFunc(taken, func(row dialect.Row) bool {
		n, bounded := c.startsOf(keyOf(row.TaskKey))
		if row.State != state.Processing || !bounded || n > 0 {
			c.countStart(row)
			return false
		}
		release = append(release, SettleRow{LeaseKey: LeaseKey{TaskID: row.ID, Fence: row.Fence}, Event: state.Release,
			After: &at, Unrecorded: true})
		c.bytes -= row.PayloadBytes()
		return true
	})
	c.leased.Rows = c.leased.Rows[:had+len(kept)]
	if len(release) == 0 {
		return nil
	}
	c.returned, c.more = true, true
	c.s.expiredSearches.again(c.r.Queue)
	b := c.s.newSettleBatch(c.r.Queue, release, true, false)
	if err := b.run(ctx, c.conn, false); err != nil {
		return err
	}
	for i, out := range b.out {
		if out.Err != nil {
			return fmt.Errorf("task %s was taken over and cannot be released: %w", release[i].TaskID, out.Err)
		}
	}
	return nil
}

// changeKeyRate applies a change of the rate per key to the keys that have started tasks. The transaction has locked
// the limits of the queue, which it has read as old.
func (s *Store) changeKeyRate(ctx context.Context, conn dialect.Conn, queue string, old Record, was, to Rate) error {
	args := dialect.Args{"queue": queue}
	switch {
	case was == to:
		return nil
	case was == Rate{}, to == Rate{}:
		_, err := s.sql.Exec(ctx, conn, s.sql.Texts.DropKeyRates, args)
		return err
	}
	now := old.Now * int64(time.Microsecond)
	args["full_at"] = (to.latest(now) + int64(time.Microsecond) - 1) / int64(time.Microsecond)
	_, err := s.sql.Exec(ctx, conn, s.sql.Texts.CapKeyRates, args)
	return err
}

// keyRateAge is how long cleaning keeps the row of a key that has all of its starts again: a task may start soon.
const keyRateAge = time.Minute

// cleanKeyRates removes the rows of keys that have all of their starts again, of all queues.
func (s *Store) cleanKeyRates(ctx context.Context) error {
	args := dialect.Args{"age": keyRateAge.Microseconds(), "limit": cleanBatch}
	return inBatches(ctx, func() (int, error) {
		var n int64
		err := s.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			n, err = s.sql.Exec(ctx, conn, s.sql.Texts.ExpireKeyRates, args)
			return err
		})
		return int(n), err
	})
}
