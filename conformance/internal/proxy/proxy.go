// Package proxy is a TCP proxy that breaks, delays and stalls connections at chosen moments.
package proxy

import (
	"errors"
	"net"
	"sync"
)

// A Proxy stands between clients and a server and breaks their connections at chosen moments. It interprets no
// protocol: a request is the bytes that a client sends before it receives an answer. Its methods may be called from
// several goroutines.
type Proxy struct {
	listener net.Listener
	target   string
	all      sync.WaitGroup

	mu       sync.Mutex
	links    map[*link]bool
	rule     Rule
	fired    bool
	cut      bool
	gone     bool          // refuse new connections
	rate     int           // bytes per second to each client; 0 is no limit
	stall    chan struct{} // not nil: nothing passes until it is closed
	sent     int64         // bytes from clients, since the rule was set
	requests int           // requests, since the rule was set
	accepted int           // connections
	closed   bool
}

// New returns a proxy that listens on loopback for connections to target, a host:port.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, links: map[*link]bool{}}
	p.all.Add(1)
	go p.accept()
	return p, nil
}

// Addr is the host:port where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close cuts everything and waits until the proxy's goroutines have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.resume()
	p.CutAll()
	p.all.Wait()
}

func (p *Proxy) accept() {
	defer p.all.Done()
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.mu.Lock()
		refuse := p.gone || p.closed
		if !refuse {
			p.accepted++
			p.all.Add(1)
		}
		p.mu.Unlock()
		if refuse {
			reset(client)
			continue
		}
		go p.serve(client)
	}
}

// Set arms a rule. Bytes and requests are counted from here.
func (p *Proxy) Set(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule, p.fired, p.cut, p.sent, p.requests = r, false, false, 0, 0
	for l := range p.links {
		l.requesting = false
	}
}

// Fired reports whether the rule was applied. If it loses an answer, the server has given that answer.
func (p *Proxy) Fired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired && (p.cut || !p.rule.LoseAnswer || p.rule.Stall)
}

// Heal ends the rule, the effects of GoDown and Stall, and the refusal of new connections. A link whose answer is lost
// is still cut, and no other. It reports whether the rule was applied.
func (p *Proxy) Heal() bool {
	p.mu.Lock()
	fired := p.fired
	arrived := p.rule.Arrived
	p.rule, p.gone = Rule{}, false
	p.mu.Unlock()
	p.resume()
	if fired && arrived != nil {
		<-arrived
	}
	return fired
}

// CutAll breaks every connection.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeAll()
}

// closeAll is CutAll under the lock.
func (p *Proxy) closeAll() {
	for l := range p.links {
		l.close()
	}
}

// GoDown breaks every connection and refuses new ones until Heal.
func (p *Proxy) GoDown() {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	p.CutAll()
}

// Slow lets the server's bytes pass at a rate per second and connection from now on.
func (p *Proxy) Slow(rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// Stall lets nothing pass until Heal. Connections stay open.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stall == nil {
		p.stall = make(chan struct{})
	}
}

// Strand makes the connections that exist now pass nothing more, without closing them. New ones work.
func (p *Proxy) Strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.stranded = true
	}
}

// resume passes the stalled bytes on.
func (p *Proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stall != nil {
		close(p.stall)
		p.stall = nil
	}
}

func (p *Proxy) wait() {
	p.mu.Lock()
	stall := p.stall
	p.mu.Unlock()
	if stall != nil {
		<-stall
	}
}

// Sent is how many bytes clients have sent since the last Set.
func (p *Proxy) Sent() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// Requests is how many requests clients have sent since the last Set: their round trips.
func (p *Proxy) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Accepted is how many connections clients have opened.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}
