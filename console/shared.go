package console

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// An open page is refreshed every few seconds. However many browsers show it, the database is read once in sharedFor,
// and at most 1/sharedLoad of the time.
const (
	sharedFor      = 5 * time.Second
	sharedErrorFor = time.Second
	sharedLoad     = 20
)

// sharedKeys is how many results a sharedBy keeps.
const sharedKeys = 200

// shared is a result that visitors share.
type shared[T any] struct {
	keep    time.Duration         // at least; the default is sharedFor
	keepFor func(T) time.Duration // at least, too, if it is not nil
	most    time.Duration         // at most, if it is not 0, however long a reading takes
	// patience is how long visitors wait for a reading if there is an older result, which they get after that. With 0,
	// they wait until it ends.
	patience time.Duration
	log      *slog.Logger // of panics that no visitor's page shows; the default is slog.Default

	mu     sync.Mutex
	newest *reading[T] // under way or ended; nil at first and after expire
	value  T           // of the last reading without an error
	good   bool        // there is a value, and no reading has failed since
}

// reading is one reading of a shared result. Its fields are final when done is closed.
type reading[T any] struct {
	done  chan struct{}
	value T
	err   error
	until time.Time // when it is too old to be shown

	expired bool // there was a change while it was under way; the lock of shared guards it
}

// get returns the result of read, or the one that another visitor reads or has just read. A visitor that leaves does
// not interrupt a reading that others wait for. There is one reading at a time: after expire, visitors wait for the one
// under way, and then for the next.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	older, mustWait := s.value, s.patience == 0 || !s.good
	s.mu.Unlock()
	var tired <-chan time.Time
	if !mustWait {
		timer := time.NewTimer(s.patience)
		defer timer.Stop()
		tired = timer.C
	}
	var none T
	for {
		r, mine, wanted := s.join()
		switch {
		case mine && mustWait:
			s.read(ctx, r, read)
		case mine:
			go s.readAlone(ctx, r, read)
		}
		select {
		case <-r.done:
		case <-tired:
			return older, nil
		case <-ctx.Done():
			return none, ctx.Err()
		}
		if wanted {
			return r.value, r.err
		}
	}
}

// join returns the newest reading. mine means that the caller has to do it, because the one before is too old. wanted
// is false if it began before a change: the caller then waits for the next one.
func (s *shared[T]) join() (r *reading[T], mine, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.newest; r == nil || r.old() {
		r, mine = &reading[T]{done: make(chan struct{})}, true
		s.newest = r
	}
	return r, mine, !r.expired
}

// readAlone is read for visitors that need not wait for it, so it has time of its own. A panic is logged, and is an
// error for the next one.
func (s *shared[T]) readAlone(visit context.Context, r *reading[T], read func(context.Context) (T, error)) {
	defer s.logPanic()
	s.read(context.WithoutCancel(visit), r, read)
}

// prepare reads the result before the first visitor comes. A panic is logged.
func (s *shared[T]) prepare(ctx context.Context, read func(context.Context) (T, error)) {
	defer s.logPanic()
	_, _ = s.get(ctx, read)
}

func (s *shared[T]) logPanic() {
	if cause := recover(); cause != nil {
		cmp.Or(s.log, slog.Default()).Error("console: a reading panicked", "cause", cause, "stack", string(debug.Stack()))
	}
}

// errReadingPanicked is the error of callers that waited for a reading that panicked.
var errReadingPanicked = errors.New("the reading panicked")

// read reads, within the time of the visitor's request.
func (s *shared[T]) read(visit context.Context, r *reading[T], read func(context.Context) (T, error)) {
	began := time.Now()
	deadline, ok := visit.Deadline()
	if !ok {
		deadline = began.Add(DefaultTimeout)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(visit), deadline)
	defer cancel()
	r.err = errReadingPanicked
	defer func() {
		now, keep := time.Now(), cmp.Or(s.keep, sharedFor)
		load := sharedLoad * now.Sub(began)
		if r.err != nil { // it may be over at once, however long the reading has waited
			keep, load = sharedErrorFor, min(load, sharedFor)
		}
		if r.err == nil && s.keepFor != nil {
			keep = max(keep, s.keepFor(r.value))
		}
		if keep = max(keep, load); s.most > 0 {
			keep = min(keep, s.most)
		}
		r.until = now.Add(keep)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.good = r.err == nil; s.good {
			s.value = r.value
		}
		if r.expired {
			s.newest = nil
		}
		close(r.done)
	}()
	r.value, r.err = read(ctx)
}

// old reports whether a reading has ended and is no longer shown.
func (r *reading[T]) old() bool {
	select {
	case <-r.done:
		return time.Now().After(r.until)
	default:
		return false
	}
}

// last returns the last result without reading.
func (s *shared[T]) last() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// expire makes the next visitor read again, as after a change.
func (s *shared[T]) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return
	}
	select {
	case <-s.newest.done:
		s.newest = nil
	default:
		s.newest.expired = true
	}
}

// sharedBy has a shared result for each of the keys that were used last.
type sharedBy[K comparable, T any] struct {
	keep, most time.Duration // as of shared

	mu sync.Mutex
	by map[K]*keyed[T]
}

// keyed is the shared result of a key.
type keyed[T any] struct {
	shared[T]
	used time.Time
}

// get returns the result of a key, as shared.get does.
func (s *sharedBy[K, T]) get(ctx context.Context, key K, read func(context.Context) (T, error)) (T, error) {
	return s.of(key).get(ctx, read)
}

// expire makes the next visitor of a key read again.
func (s *sharedBy[K, T]) expire(key K) { s.of(key).expire() }

// expireAll makes the next visitor of each key read again.
func (s *sharedBy[K, T]) expireAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = nil
}

// of returns the result of a key. If that is one too many, it forgets the key that was not used for longest.
func (s *sharedBy[K, T]) of(key K) *keyed[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.by[key]
	if k == nil {
		if s.by == nil {
			s.by = map[K]*keyed[T]{}
		}
		if len(s.by) >= sharedKeys {
			s.forget()
		}
		k = &keyed[T]{shared: shared[T]{keep: s.keep, most: s.most}}
		s.by[key] = k
	}
	k.used = time.Now()
	return k
}

// forget removes the key that was not used for longest.
func (s *sharedBy[K, T]) forget() {
	var oldest *keyed[T]
	var of K
	for key, k := range s.by {
		if oldest == nil || k.used.Before(oldest.used) {
			oldest, of = k, key
		}
	}
	delete(s.by, of)
}
