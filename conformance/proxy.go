package conformance

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// proxy stands between clients and a server and breaks their connections at chosen moments. It knows nothing of any protocol: a
// request is what a client sends between two things that it receives.
type proxy struct {
	listener net.Listener
	target   string
	all      sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	rule   rule
	fired  bool
	gone   bool          // refuse new connections
	stall  chan struct{} // not nil: nothing passes until it is closed
	sent   int64         // bytes from clients, since the rule was set
	asked  int           // requests, since the rule was set
	closed bool
}

// rule is where the proxy cuts, once. Exactly one of its moments is set.
type rule struct {
	atByte  int64          // cut when this many bytes more have gone to the server
	atAsk   int            // cut at this request, counted from 1
	atText  *regexp.Regexp // cut at the request that holds this
	answer  bool           // let the request through and cut at its answer, which the client does not get
	keep    int            // of the answer, so many bytes still reach the client
	stay    bool           // after the cut no new connection comes about, until heal
	stalled bool           // stop everything, at the request, instead of cutting
	late    time.Duration  // cut the client off at once, and let the request reach the server so much later,
	arrived chan struct{}  // which closes this
}

// quiet is how long an answer must have paused before it counts as complete: then the server has done what it was asked.
const quiet = 15 * time.Millisecond

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	asking         bool        // what passed last came from the client
	swallow        *time.Timer // not nil: answers are kept back, and the timer cuts
	keep           int         // bytes of the answer that are not kept back
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// newProxy listens on loopback for connections to target, a host:port.
func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, links: map[*link]bool{}}
	p.all.Add(1)
	go p.accept()
	return p, nil
}

// throughProxy starts a proxy before the server of this case's DSN, or the node that takes writes, and returns the DSN that leads
// through it.
func (t *T) throughProxy() (*proxy, string) {
	dsn := t.dsn
	if t.suite.h.Cluster != nil {
		dsn = t.place(t.writer(0))
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skipf("the DSN names no host, so there is no network connection to cut")
	}
	if u.Port() == "" {
		t.Skipf("the DSN names no port, so the suite cannot put itself between client and server")
	}
	own, _, _ := strings.Cut(u.Host, ",") // of several nodes, the first is the one whose DSN this is
	p, err := newProxy(own)
	t.Must(err)
	t.Cleanup(p.Close)
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

// Close cuts everything and waits until the proxy's goroutines have ended.
func (p *proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.flow()
	p.cut()
	p.all.Wait()
}

func (p *proxy) accept() {
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

// reset closes a connection as a server does that is not there.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

func (p *proxy) serve(client net.Conn) {
	defer p.all.Done()
	server, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		reset(client)
		return
	}
	l := &link{client: client, server: server}
	defer l.close()
	p.mu.Lock()
	p.links[l] = true
	dead := p.closed || p.gone
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
		if l.swallow != nil {
			l.swallow.Stop()
		}
	}()
	if dead {
		return
	}
	down := make(chan struct{})
	go func() {
		defer close(down)
		defer l.close()
		pump(l.server, func(b []byte) error { return p.toClient(l, b) })
	}()
	pump(l.client, func(b []byte) error { return p.toServer(l, b) })
	l.close()
	<-down
}

func pump(from io.Reader, pass func([]byte) error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && pass(buf[:n]) != nil || err != nil {
			return
		}
	}
}

var errCut = errors.New("cut")

// toServer passes what a client sent, unless this is the moment.
func (p *proxy) toServer(l *link, b []byte) error {
	p.wait()
	p.mu.Lock()
	if !l.asking {
		l.asking = true
		p.asked++
	}
	before := p.sent
	p.sent += int64(len(b))
	r := p.rule
	now := !p.fired && (r.atAsk > 0 && p.asked == r.atAsk || r.atText != nil && r.atText.Match(b) ||
		r.atByte > 0 && p.sent >= r.atByte)
	if now {
		p.fired = true
		p.gone = p.gone || r.stay
		if r.stalled && p.stall == nil {
			p.stall = make(chan struct{})
		}
	}
	p.mu.Unlock()
	switch {
	case !now:
	case r.late > 0:
		reset(l.client)
		time.Sleep(r.late)
		_, _ = l.server.Write(b)
		time.Sleep(quiet)
		close(r.arrived)
		return errCut
	case r.stalled && !r.answer:
		p.wait()
	case r.stalled: // the request goes on, its answer does not
	case r.answer:
		p.mu.Lock()
		l.keep = r.keep
		l.swallow = time.AfterFunc(time.Hour, func() { p.cutNow(l, r) }) // toClient brings it forward
		p.mu.Unlock()
	case r.atByte > 0:
		_, _ = l.server.Write(b[:min(int64(len(b)), r.atByte-before)])
		fallthrough
	default:
		p.cutNow(l, r)
		return errCut
	}
	_, err := l.server.Write(b)
	return err
}

// toClient passes what the server answered, unless the answer is to be lost: then the cut comes when the answer has ended.
func (p *proxy) toClient(l *link, b []byte) error {
	p.wait()
	p.mu.Lock()
	l.asking = false
	timer := l.swallow
	if timer != nil {
		b = b[:min(len(b), l.keep)]
		l.keep -= len(b)
	}
	p.mu.Unlock()
	if timer != nil {
		timer.Reset(quiet)
	}
	if len(b) == 0 {
		return nil
	}
	_, err := l.client.Write(b)
	return err
}

// cutNow cuts the link, or all of them when the server is to stay away.
func (p *proxy) cutNow(l *link, r rule) {
	if r.stay {
		p.cut()
		return
	}
	l.close()
}

// set arms a rule and counts from here.
func (p *proxy) set(r rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule, p.fired, p.sent, p.asked = r, false, 0, 0
	for l := range p.links {
		l.asking = false
	}
}

// hasFired reports whether the rule had its moment.
func (p *proxy) hasFired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired
}

// heal ends every rule and lets connections through again. It reports whether the rule had its moment.
func (p *proxy) heal() bool {
	p.mu.Lock()
	fired := p.fired
	arrived := p.rule.arrived
	p.rule, p.gone = rule{}, false
	p.mu.Unlock()
	p.flow()
	if fired && arrived != nil {
		<-arrived
	}
	return fired
}

// cut breaks every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// leave breaks every connection and refuses new ones until heal.
func (p *proxy) leave() {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	p.cut()
}

// freeze keeps everything back until heal, on connections that stay open.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stall == nil {
		p.stall = make(chan struct{})
	}
}

// flow lets what was held pass.
func (p *proxy) flow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stall != nil {
		close(p.stall)
		p.stall = nil
	}
}

func (p *proxy) wait() {
	p.mu.Lock()
	stall := p.stall
	p.mu.Unlock()
	if stall != nil {
		<-stall
	}
}

func (r rule) String() string {
	what := "request"
	if r.answer {
		what = fmt.Sprintf("the answer, but for %d bytes, to request", r.keep)
	}
	switch {
	case r.atText != nil:
		what += fmt.Sprintf(" with %v", r.atText)
	case r.atByte > 0:
		what = fmt.Sprintf("%d bytes", r.atByte)
	default:
		what += fmt.Sprintf(" %d", r.atAsk)
	}
	if r.late > 0 {
		what += fmt.Sprintf(", which arrives %v later", r.late)
	}
	if r.stay {
		what += ", server gone from then on"
	}
	return what
}
