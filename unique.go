package dbq

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
)

// Unique makes a task exclude others of its queue that have the same key. The zero value means: while another task of
// this kind with this payload waits, do not add one.
//
// A key is free again as soon as its task no longer excludes others; nothing has to release it. If a task that no
// longer excludes others returns to the queue, because an attempt failed, it was released or an operator reenqueued it,
// and its key has been taken in the meantime, both tasks run, and the later one keeps the key.
//
// The key is checked before the reference. If the key is free and the reference is taken, the task is a duplicate and
// the key stays free.
//
// Enqueues with one key run one after the other: in a transaction of yours, others wait for its end. Until then, the
// task that excludes yours is locked and can neither start nor end, so that it sees what your transaction has changed
// when it starts. See docs/unique.md for isolation levels and deadlocks.
type Unique struct {
	// Key is up to MaxUniqueKey characters, compared byte by byte. "" stands for the task's kind and payload. Keys of
	// different queues, of different values of While, of different periods, and of windows are different keys.
	Key string
	// While is how long a task excludes others. It must be "" or UniquePending if Period or Window is set.
	While UniqueWhile
	// Period, from MinUniquePeriod to MaxUniquePeriod, allows one task for each period, whatever becomes of it. The
	// period is that in which the task is due. Periods are counted from 1970 in UTC: those of an hour or a day begin at
	// the full hour or at midnight.
	Period time.Duration
	// Window, from MinUniquePeriod to MaxUniquePeriod, allows one task in this time after its enqueue, by the
	// database's clock, whatever becomes of it. So an enqueue can be repeated even if the task has completed and was
	// removed. Set Period or Window, not both.
	Window time.Duration
	// OnConflict determines the effect of an enqueue if another task has the key.
	OnConflict UniqueConflict
	// MaxWait limits how far UniqueReplace and UniqueDebounce postpone a task: to MaxWait after it was created, so that
	// frequent calls cannot postpone it forever. It must be at least NewTask.Delay. Zero means no limit.
	MaxWait time.Duration
}

// UniqueWhile is how long a unique task excludes others. "" is UniquePending.
type UniqueWhile string

const (
	// UniquePending excludes others while the task waits for an attempt: in CREATED, or in ERROR with a due time. Once
	// it has started, another one can be added, which then runs after a change that the first may not have seen.
	UniquePending UniqueWhile = "pending"
	// UniqueUnfinished excludes others until the task ends, also while it runs. A task ends when it is COMPLETED,
	// POISON, parked or removed.
	UniqueUnfinished UniqueWhile = "unfinished"
)

// UniqueConflict is the effect of an enqueue if another task has its unique key. "" is UniqueKeep.
type UniqueConflict string

const (
	// UniqueKeep adds nothing and changes nothing: the task is a duplicate.
	UniqueKeep UniqueConflict = "keep"
	// UniqueReplace replaces the kind, key, payload, headers, priority and due time of the task that waits. Its id,
	// reference and attempts stay, and so does the due time of a task that waits for a retry. It needs a
	// Key. A task that does not wait stays as it is, as with UniqueKeep. Its progress is cleared.
	UniqueReplace UniqueConflict = "replace"
	// UniqueDebounce moves the due time of the task that waits to NewTask.Delay from now, unless it is later already,
	// and changes nothing else. It needs a Delay. A task that does not wait stays as it is, as with UniqueKeep.
	UniqueDebounce UniqueConflict = "debounce"
)

// check refuses fields outside their limits, and fields that exclude each other.
func (u *Unique) check(t *NewTask) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrUnique}, args...)...)
	}
	if err := bounds.Text(u.Key, 0, MaxUniqueKey, ErrUnique, "key"); err != nil {
		return err
	}
	changes := u.OnConflict == UniqueReplace || u.OnConflict == UniqueDebounce
	switch {
	case u.While != "" && u.While != UniquePending && u.While != UniqueUnfinished:
		return refuse("While is %q, it must be %q or %q", u.While, UniquePending, UniqueUnfinished)
	case u.OnConflict != "" && u.OnConflict != UniqueKeep && !changes:
		return refuse("OnConflict is %q, it must be %q, %q or %q", u.OnConflict, UniqueKeep, UniqueReplace, UniqueDebounce)
	case u.Period != 0 && (u.Period < MinUniquePeriod || u.Period > MaxUniquePeriod):
		return refuse("the period is %v, it must be between %v and %v", u.Period, MinUniquePeriod, MaxUniquePeriod)
	case u.Period%time.Microsecond != 0:
		return refuse("the period is %v, it must be whole microseconds", u.Period)
	case u.Window != 0 && (u.Window < MinUniquePeriod || u.Window > MaxUniquePeriod):
		return refuse("the window is %v, it must be between %v and %v", u.Window, MinUniquePeriod, MaxUniquePeriod)
	case u.Window%time.Microsecond != 0:
		return refuse("the window is %v, it must be whole microseconds", u.Window)
	case u.Period != 0 && u.While == UniqueUnfinished, u.Window != 0 && u.While == UniqueUnfinished,
		u.Period != 0 && u.Window != 0:
		return refuse("set only one of While, Period and Window")
	case u.OnConflict == UniqueReplace && u.Key == "":
		return refuse("UniqueReplace needs a Key: without one, the payload is the key")
	case u.OnConflict == UniqueDebounce && t.Delay == 0:
		return refuse("UniqueDebounce needs a Delay")
	case u.MaxWait != 0 && !changes:
		return refuse("MaxWait is for UniqueReplace and UniqueDebounce")
	case u.MaxWait < 0 || u.MaxWait > MaxDelay:
		return refuse("MaxWait is %v, it must be between 0 and %v", u.MaxWait, MaxDelay)
	case u.MaxWait != 0 && (t.Delay == 0 || u.MaxWait < t.Delay):
		return refuse("MaxWait is %v, which needs a Delay of at most that", u.MaxWait)
	}
	return nil
}

// rule returns the form of the store.
func (u *Unique) rule(t *NewTask) *store.Unique {
	key := u.Key
	if key == "" {
		key = fmt.Sprintf("%s:%x", t.Kind, sha256.Sum256(t.Payload))
	}
	return &store.Unique{
		Key: key, Unfinished: u.While == UniqueUnfinished, Period: u.Period, Window: u.Window, MaxWait: u.MaxWait,
		OnConflict: store.OnConflict(cmp.Or(u.OnConflict, UniqueKeep)),
	}
}

// unique reports whether some of the tasks are.
func unique(ts []NewTask) bool {
	for i := range ts {
		if ts[i].Unique != nil {
			return true
		}
	}
	return false
}
