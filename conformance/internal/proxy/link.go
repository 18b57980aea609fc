package proxy

import (
	"errors"
	"io"
	"net"
	"time"
)

// AnswerPause is how long an answer must have paused before it counts as complete: then the server has executed the
// request.
const AnswerPause = 15 * time.Millisecond

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	requesting     bool        // the last bytes came from the client
	cutTimer       *time.Timer // not nil: answers are kept back, and the timer cuts
	keep           int         // bytes of the answer that are not kept back
	cutting        bool        // the client gets nothing more
	stranded       bool        // nothing passes; see Strand
	after          int         // the requests until the one that the rule is about; 0 if none has had its text
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// reset closes a connection as a server does that is not there.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

func (p *Proxy) serve(client net.Conn) {
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
		if l.cutTimer != nil {
			l.cutTimer.Stop()
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

// toServer passes a client's bytes on, unless this is the moment.
func (p *Proxy) toServer(l *link, b []byte) error {
	p.wait()
	p.mu.Lock()
	if l.stranded {
		p.mu.Unlock()
		return nil
	}
	hit := false
	if !l.requesting {
		l.requesting = true
		p.requests++
		if l.after > 0 {
			l.after--
			hit = l.after == 0
		}
	}
	before := p.sent
	p.sent += int64(len(b))
	r := p.rule
	if r.AtText != nil && r.AtText.Match(b) {
		l.after, hit = r.After, hit || r.After == 0
	}
	now := !p.fired && (r.AtRequest > 0 && p.requests == r.AtRequest || hit || r.AtByte > 0 && p.sent >= r.AtByte)
	if now {
		p.fired = true
		p.gone = p.gone || r.StayDown
		if r.Stall && p.stall == nil {
			p.stall = make(chan struct{})
		}
	}
	p.mu.Unlock()
	switch {
	case !now:
	case r.Delay > 0:
		reset(l.client)
		time.Sleep(r.Delay)
		_, _ = l.server.Write(b)
		time.Sleep(AnswerPause)
		close(r.Arrived)
		return errCut
	case r.Stall && !r.LoseAnswer:
		p.wait()
	case r.Stall: // the request goes on, its answer does not
	case r.LoseAnswer:
		p.mu.Lock()
		l.keep = r.KeepBytes
		l.cutTimer = time.AfterFunc(time.Hour, func() { p.cutNow(l, r) }) // toClient brings it forward
		p.mu.Unlock()
	case r.AtByte > 0:
		p.mu.Lock()
		l.cutting = true // the answer to a whole request may come before the cut
		p.mu.Unlock()
		_, _ = l.server.Write(b[:min(int64(len(b)), r.AtByte-before)])
		fallthrough
	default:
		p.cutNow(l, r)
		return errCut
	}
	_, err := l.server.Write(b)
	return err
}

// toClient passes the server's answer on, unless it is to be lost: then the cut comes when the answer has ended.
func (p *Proxy) toClient(l *link, b []byte) error {
	p.wait()
	p.mu.Lock()
	l.requesting = false
	if l.stranded {
		b = nil
	}
	timer := l.cutTimer
	if timer != nil {
		b = b[:min(len(b), l.keep)]
		l.keep -= len(b)
	}
	if l.cutting {
		b = nil
	}
	rate := p.rate
	p.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(rate))
	}
	if timer != nil {
		timer.Reset(AnswerPause)
	}
	if len(b) == 0 {
		return nil
	}
	_, err := l.client.Write(b)
	return err
}

// cutNow cuts the link, or all of them when the server is to stay away and has not been healed since: a timer may come
// late.
func (p *Proxy) cutNow(l *link, r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	p.cut = true
	if r.StayDown && p.gone {
		p.closeAll()
	}
}
