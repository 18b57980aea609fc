package callers

import "sync"

// Places limits how much runs at once, as a number of requests or of bytes, and shares it among the callers: a caller
// may hold as many places as are free. So one caller that takes all that it can gets half of them, the next one half of
// the rest, and so on: seven of them use up 100 places. It is safe for concurrent use.
type Places struct {
	mu   sync.Mutex
	free int64
	held map[string]int64 // by caller
}

// NewPlaces returns a number of places.
func NewPlaces(n int64) *Places { return &Places{free: n, held: map[string]int64{}} }

// Take takes n places for a caller, and reports whether there were as many. A caller that holds none can take all.
func (p *Places) Take(name string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[name]+n > p.free {
		return false
	}
	p.free -= n
	p.held[name] += n
	return true
}

// Release returns n of the places that a caller has taken.
func (p *Places) Release(name string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	if p.held[name] -= n; p.held[name] == 0 {
		delete(p.held, name)
	}
}
