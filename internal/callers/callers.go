// Package callers counts the callers of a server: how many requests per second each may send, how many may run at once,
// and from which address a request comes.
package callers

import (
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter limits the requests of each caller. It is safe for concurrent use.
type Limiter struct {
	rate  rate.Limit
	burst int

	mu     sync.Mutex
	byName map[string]*rate.Limiter
}

// maxCallers is how many callers are known before those that have been idle are forgotten.
const maxCallers = 10_000

// New returns a Limiter of a number of requests per second, of which burst may come at once. A rate of 0 is no limit,
// and a burst of 0 the requests of one second.
func New(perSecond float64, burst int) (*Limiter, error) {
	if !(perSecond >= 0) || math.IsInf(perSecond, 1) || burst < 0 || burst > 0 && perSecond == 0 {
		return nil, errors.New("CallerRate and CallerBurst must not be negative, and CallerBurst needs CallerRate")
	}
	if burst == 0 {
		burst = max(1, int(math.Ceil(perSecond)))
	}
	return &Limiter{rate: rate.Limit(perSecond), burst: burst, byName: map[string]*rate.Limiter{}}, nil
}

// Wait counts a request of a caller. It returns how long the caller must wait instead, or 0.
func (c *Limiter) Wait(name string) time.Duration {
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
			for one := range c.byName { // an attack made up these names
				if len(c.byName) < maxCallers {
					break
				}
				delete(c.byName, one)
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
