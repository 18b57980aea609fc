package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/callers"
	"github.com/dbq-go/dbq/internal/wire"
)

// limited refuses requests of a caller that exceeds its rate.
func (a *API) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.FromContext(r.Context())
		if wait := a.callers.Wait(p.Name); wait > 0 {
			problem := wire.TooMany.Problem()
			problem.After = wait
			refuse(w, r, problem)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authenticator limits how many requests are authenticated at once, which may read a database or call another server.
// The places are shared among the credentials that were accepted before; all others are one caller, which leaves them
// half of the places.
type authenticator struct {
	auth.Authenticator
	places   *callers.Places
	accepted *accepted
}

// accepted has the hashes of credentials that were accepted and not refused since. It is safe for concurrent use.
type accepted struct {
	mu     sync.Mutex
	hashes map[string]bool
}

// maxAccepted is how many credentials are known before all are forgotten.
const maxAccepted = 10_000

// name returns the name of a caller with these credentials: the empty one if they are unknown.
func (a *accepted) name(hash string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hashes[hash] {
		return hash
	}
	return ""
}

// record records that credentials were accepted or refused.
func (a *accepted) record(hash string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !ok {
		delete(a.hashes, hash)
		return
	}
	if len(a.hashes) >= maxAccepted {
		clear(a.hashes)
	}
	a.hashes[hash] = true
}

// authenticateWait is how long a request waits until it can be authenticated, with a pause between two tries, and
// authenticateTimeout how long that may take.
const (
	authenticateWait    = time.Second
	authenticatePause   = 20 * time.Millisecond
	authenticateTimeout = 5 * time.Second
)

// Authenticate implements auth.Authenticator.
func (a authenticator) Authenticate(r *http.Request) (auth.Principal, error) {
	credentials := r.Header.Get("Authorization")
	if token, ok := auth.Bearer(r); ok { // whatever its spelling
		credentials = "Bearer " + token
	}
	sum := sha256.Sum256([]byte(credentials))
	hash := string(sum[:])
	name := a.accepted.name(hash)
	for end := time.Now().Add(authenticateWait); !a.places.Take(name, 1); {
		if time.Now().After(end) {
			return auth.Principal{}, wire.Busy.Problem()
		}
		select {
		case <-r.Context().Done():
			return auth.Principal{}, r.Context().Err()
		case <-time.After(authenticatePause):
		}
	}
	defer a.places.Release(name, 1)
	ctx, cancel := context.WithTimeout(r.Context(), authenticateTimeout)
	defer cancel()
	p, err := a.Authenticator.Authenticate(r.WithContext(ctx))
	if err == nil || errors.Is(err, auth.ErrUnauthenticated) {
		a.accepted.record(hash, err == nil)
	}
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
		return wire.Busy.Problem()
	case <-ctx.Done():
		return ctx.Err()
	}
}
