package callers

import "sync"

// Places limits how much runs at once, and shares it among the callers: a caller may hold as many places as are free.
// So one caller gets half of them, two get a third each, and there is always room for another one. It is safe for
// concurrent use.
type Places struct {
	mu   sync.Mutex
	free int
	held map[string]int // by caller
}

// NewPlaces returns a number of places.
func NewPlaces(n int) *Places { return &Places{free: n, held: map[string]int{}} }

// Take takes a place for a caller, and reports whether there was one.
func (p *Places) Take(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[name] >= p.free {
		return false
	}
	p.free--
	p.held[name]++
	return true
}

// Release returns a place that a caller has taken.
func (p *Places) Release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.held[name]--; p.held[name] == 0 {
		delete(p.held, name)
	}
}
