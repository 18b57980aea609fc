package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/dbq-go/dbq/auth"
)

// limited refuses requests of a caller that exceeds its rate.
func (a *API) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.FromContext(r.Context())
		if wait := a.callers.Wait(p.Name); wait > 0 {
			problem := tooMany.problem()
			problem.after = wait
			refuse(w, r, problem)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authenticator limits how many requests are authenticated at once, which may read a database or call another server.
type authenticator struct {
	auth.Authenticator
	slots chan struct{}
}

// authenticateWait is how long a request waits until it can be authenticated, and authenticateTimeout how long that may
// take.
const (
	authenticateWait    = time.Second
	authenticateTimeout = 5 * time.Second
)

// Authenticate implements auth.Authenticator.
func (a authenticator) Authenticate(r *http.Request) (auth.Principal, error) {
	if err := take(r.Context(), a.slots, authenticateWait); err != nil {
		return auth.Principal{}, err
	}
	defer func() { <-a.slots }()
	ctx, cancel := context.WithTimeout(r.Context(), authenticateTimeout)
	defer cancel()
	p, err := a.Authenticator.Authenticate(r.WithContext(ctx))
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		err = fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	return p, err
}

// take puts an element into a channel. If it is full for longer than wait, take returns the problem that it is.
func take(ctx context.Context, slots chan struct{}, wait time.Duration) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-timer.C:
		return busy.problem()
	case <-ctx.Done():
		return ctx.Err()
	}
}
