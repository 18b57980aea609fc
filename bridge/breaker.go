package bridge

import (
	"errors"
	"time"

	"github.com/dbq-go/dbq/worker"
	"github.com/sony/gobreaker/v2"
)

// breaker is the circuit breaker of an endpoint. While it is open, its switch is off, so that the worker checks out no
// tasks.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	pause time.Duration
	on    worker.Switch
}

// errAborted is for a request that the worker has ended. It says nothing about the endpoint.
var errAborted = errors.New("aborted")

func newBreaker(failures int, pause time.Duration) *breaker {
	b := &breaker{pause: pause}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(failures) },
		IsExcluded:  func(err error) bool { return errors.Is(err, errAborted) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.on.Pause()
				time.AfterFunc(pause+10*time.Millisecond, b.on.Resume) // a little later than the breaker
			}
		},
	})
	return b
}

// open reports whether the breaker would refuse a call.
func (b *breaker) open() bool { return b.State() == gobreaker.StateOpen }

// allow counts a call, unless the breaker refuses it. done must be called with its outcome, and ended at its end, even
// if it panics: it would be under way for ever, and as the trial of an open breaker it would be the last call.
func (b *breaker) allow() (done func(error), ended func(), err error) {
	report, err := b.Allow()
	if err != nil {
		return nil, nil, err
	}
	reported := false
	done = func(err error) { reported = true; report(err) }
	return done, func() {
		if !reported {
			report(errPanicked)
		}
	}, nil
}

// errPanicked is the outcome of a call that panics.
var errPanicked = errors.New("the call panicked")

// wait is how long a task waits that the breaker refused: other processes may not know that the endpoint fails.
func (b *breaker) wait() time.Duration {
	if b.State() == gobreaker.StateHalfOpen { // another task is trying the endpoint
		return min(time.Second, b.pause)
	}
	return b.pause
}
