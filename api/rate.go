package api

import (
	"errors"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/dbq-go/dbq/auth"
	"golang.org/x/time/rate"
)

// callers limits the requests of each caller. It is safe for concurrent use.
type callers struct {
	rate  rate.Limit
	burst int

	mu     sync.Mutex
	byName map[string]*rate.Limiter
}

// maxCallers is how many callers are known before those that have been idle are forgotten.
const maxCallers = 10_000

func newCallers(perSecond float64, burst int) *callers {
	if burst == 0 {
		burst = max(1, int(math.Ceil(perSecond)))
	}
	return &callers{rate: rate.Limit(perSecond), burst: burst, byName: map[string]*rate.Limiter{}}
}

// wait reserves a request of a caller. It returns how long the caller must wait instead, or 0.
func (c *callers) wait(name string) time.Duration {
	if c.rate == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.byName[name]
	if l == nil {
		if len(c.byName) >= maxCallers {
			for idle, l := range c.byName {
				if l.Tokens() >= float64(c.burst) {
					delete(c.byName, idle)
				}
			}
		}
		l = rate.NewLimiter(c.rate, c.burst)
		c.byName[name] = l
	}
	r := l.Reserve()
	wait := r.Delay()
	if wait > 0 {
		r.Cancel()
	}
	return wait
}

// limited refuses requests of a caller that exceeds its rate.
func (a *API) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.FromContext(r.Context())
		if wait := a.callers.wait(p.Name); wait > 0 {
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

// authenticateWait is how long a request waits until it can be authenticated.
const authenticateWait = time.Second

var errBusy = errors.New("too many requests are being authenticated")

// Authenticate implements auth.Authenticator.
func (a authenticator) Authenticate(r *http.Request) (auth.Principal, error) {
	select {
	case a.slots <- struct{}{}:
	default:
		timer := time.NewTimer(authenticateWait)
		defer timer.Stop()
		select {
		case a.slots <- struct{}{}:
		case <-timer.C:
			return auth.Principal{}, errBusy
		case <-r.Context().Done():
			return auth.Principal{}, r.Context().Err()
		}
	}
	defer func() { <-a.slots }()
	return a.Authenticator.Authenticate(r)
}
