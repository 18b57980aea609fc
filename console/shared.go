package console

import (
	"context"
	"sync"
	"time"
)

// sharedFor is how long a result is shown to other visitors: an open page is refreshed every few seconds, and however
// many browsers show it, the database is read once in this time.
const sharedFor = 3 * time.Second

// shared is a result that visitors share.
type shared[T any] struct {
	reading sync.Mutex // held while one visitor reads

	mu    sync.Mutex
	value T
	at    time.Time
}

// get returns the result of read, or the one that another visitor has just read. An error is not shared.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	value, fresh := s.value, time.Since(s.at) < sharedFor
	s.mu.Unlock()
	if fresh {
		return value, nil
	}
	value, err := read(ctx)
	if err != nil {
		return value, err
	}
	s.mu.Lock()
	s.value, s.at = value, time.Now()
	s.mu.Unlock()
	return value, nil
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
	s.at = time.Time{}
}
