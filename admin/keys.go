package admin

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// keysRead is how many tasks of each state Keys reads, the first ones of its index.
const keysRead = 1_000

// KeyInfo is a key of a queue: its tasks that run and wait, and what holds the waiting ones up.
type KeyInfo struct {
	Key     string
	Running int
	Waiting int // due, also for a retry
	Later   int // delayed, or waiting for other steps or a retry
	Stuck   int // parked, or in POISON and not cancelled
	// Oldest is when the first of the waiting tasks was due.
	Oldest time.Time
	// Full reports that as many tasks run as the limit of each key allows.
	Full bool
	// First is the task that must end before another one of the key starts, in a queue with an order. It has no payload.
	First dbq.Task
	// NextStart is how long it is until the rate of the key allows a start; 0 is now.
	NextStart time.Duration
}

// KeyList has the keys of a queue, those with the most waiting and then the most running tasks first.
type KeyList struct {
	Keys    []KeyInfo
	Limits  QueueLimits
	Running int  // tasks in PROCESSING, with and without a key
	More    bool // there may be more tasks than were read, of the same keys or of others

	cut    bool // there may be more waiting tasks than were read
	due    int  // tasks that were read and wait, with and without a key
	mayRun int  // those of them that no limit and no order of their key holds up
}

// Keys reads the keys of a queue, and what holds their tasks up: at most 1,000 tasks in each state but COMPLETED. Its
// cost does not grow with the table.
func (a *Admin) Keys(ctx context.Context, queue string) (KeyList, error) {
	limits, err := a.QueueLimits(ctx, queue)
	if err != nil {
		return KeyList{}, err
	}
	return a.keys(ctx, queue, limits)
}

func (a *Admin) keys(ctx context.Context, queue string, limits QueueLimits) (KeyList, error) {
	list := KeyList{Limits: limits}
	now, err := a.client.Now(ctx)
	if err != nil {
		return list, err
	}
	var all []dbq.Task
	for _, s := range []dbq.State{dbq.StateProcessing, dbq.StateCreated, dbq.StateError, dbq.StatePoison} {
		rows, more, err := a.store.ListSome(ctx, queue, s, keysRead)
		if err != nil {
			return list, a.wrap("keys", queue, err)
		}
		list.More = list.More || more
		list.cut = list.cut || more && (s == dbq.StateCreated || s == dbq.StateError)
		for _, r := range rows {
			if t := access.Task(r); !t.Cancelled {
				all = append(all, t)
			}
		}
	}
	keys := list.group(all, now)
	if err := a.keyRates(ctx, queue, limits.KeyRate, keys); err != nil {
		return list, a.wrap("keys", queue, err)
	}
	list.countStartable(all, keys, now)
	for _, k := range keys {
		list.Keys = append(list.Keys, *k)
	}
	slices.SortFunc(list.Keys, func(a, b KeyInfo) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Running, a.Running), cmp.Compare(a.Key, b.Key))
	})
	return list, nil
}

// group counts tasks by their keys. Tasks without a key have no limit and no order.
func (l *KeyList) group(tasks []dbq.Task, now time.Time) map[string]*KeyInfo {
	keys := map[string]*KeyInfo{}
	for _, t := range tasks {
		if t.State == dbq.StateProcessing {
			l.Running++
		}
		if t.Key == "" {
			continue
		}
		k := keys[t.Key]
		if k == nil {
			k = &KeyInfo{Key: t.Key}
			keys[t.Key] = k
		}
		stuck := t.State == dbq.StatePoison || t.Parked()
		switch {
		case stuck:
			k.Stuck++
		case t.State == dbq.StateProcessing:
			k.Running++
		case !waits(t, now):
			k.Later++
		default:
			k.Waiting++
			if k.Oldest.IsZero() || t.Due.Before(k.Oldest) {
				k.Oldest = t.Due
			}
		}
		blocks := l.Limits.Order == OrderBlock || l.Limits.Order == OrderSkip && !stuck
		if blocks && (k.First.ID == uuid.Nil || bytes.Compare(t.ID[:], k.First.ID[:]) < 0) {
			k.First = t
		}
	}
	most := l.Limits.KeyConcurrency
	if l.Limits.Order != OrderNone {
		most = 1
	}
	for _, k := range keys {
		k.Full = most > 0 && k.Running >= most
	}
	return keys
}

// waits reports whether a task is due and waits to be checked out.
func waits(t dbq.Task, now time.Time) bool {
	waiting := t.State == dbq.StateCreated || t.State == dbq.StateError && !t.Parked()
	return waiting && !t.Blocked && !t.Due.After(now)
}

// keyRates reads what the rate of each key allows to the keys with waiting tasks.
func (a *Admin) keyRates(ctx context.Context, queue string, rate Rate, keys map[string]*KeyInfo) error {
	var names []string
	for name, k := range keys {
		if k.Waiting > 0 {
			names = append(names, name)
		}
	}
	if rate == (Rate{}) || len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	allowed, err := a.store.KeyAllowances(ctx, queue, store.Rate(rate), names)
	for name, left := range allowed {
		if keys[name] != nil {
			keys[name].NextStart = left.Wait
		}
	}
	return err
}

// countStartable counts the tasks that wait, and those that nothing about their key holds up.
func (l *KeyList) countStartable(tasks []dbq.Task, keys map[string]*KeyInfo, now time.Time) {
	for _, t := range tasks {
		if !waits(t, now) {
			continue
		}
		l.due++
		if t.Key == "" || !keys[t.Key].holds(t) {
			l.mayRun++
		}
	}
}

// holds reports whether a limit or the order of the key keeps one of its waiting tasks from starting.
func (k KeyInfo) holds(t dbq.Task) bool {
	return k.Full || k.NextStart > 0 || k.First.ID != uuid.Nil && k.First.ID != t.ID
}
