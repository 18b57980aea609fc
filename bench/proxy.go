package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
)

// countingProxy passes connections on to a server and counts the statements that clients send, whatever their driver.
type countingProxy struct {
	listener   net.Listener
	target     string
	mysql      bool // else PostgreSQL
	statements atomic.Int64
	mu         sync.Mutex
	open       map[net.Conn]bool
}

// proxyFor starts a proxy before the server of a DSN, and returns the DSN of the proxy.
func proxyFor(dsn string, mysql bool) (*countingProxy, string, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return nil, "", fmt.Errorf("counting statements needs a DSN that is a URL with one host")
	}
	p := &countingProxy{target: u.Host, mysql: mysql, open: map[net.Conn]bool{}}
	if u.Port() == "" {
		p.target = net.JoinHostPort(u.Hostname(), map[bool]string{false: "5432", true: "3306"}[mysql])
	}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, "", err
	}
	go p.accept()
	u.Host = p.listener.Addr().String()
	return p, u.String(), nil
}

func (p *countingProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		go p.serve(client)
	}
}

func (p *countingProxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	var group sync.WaitGroup
	pass := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from) // ends when either side is closed
		client.Close()
		server.Close()
	}
	group.Go(func() { pass(io.MultiWriter(server, &wire{mysql: p.mysql, statements: &p.statements}), client) })
	group.Go(func() { pass(client, server) })
	group.Wait()
	p.mu.Lock()
	delete(p.open, client)
	delete(p.open, server)
	p.mu.Unlock()
}

func (p *countingProxy) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

// wire parses what a client sends, only as far as needed to count statements.
type wire struct {
	mysql      bool
	statements *atomic.Int64
	header     []byte
	skip       int  // bytes of a message that are left
	started    bool // PostgreSQL: the startup message is over
}

const (
	pgStartup    = 3 // the major version; other codes ask for encryption
	mysqlQuery   = 0x03
	mysqlExecute = 0x17
)

func (w *wire) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if w.skip > 0 {
			k := min(w.skip, len(b))
			w.skip -= k
			b = b[k:]
			continue
		}
		w.header = append(w.header, b[0])
		b = b[1:]
		if w.mysql {
			w.readMySQL()
		} else {
			w.readPostgres()
		}
	}
	return n, nil
}

// readPostgres reads a header: a type and a length, which counts itself; the first message has a code after its length.
func (w *wire) readPostgres() {
	switch h := w.header; {
	case !w.started && len(h) == 8:
		w.skip = int(binary.BigEndian.Uint32(h)) - 8
		w.started = binary.BigEndian.Uint16(h[4:]) == pgStartup
		w.header = nil
	case w.started && len(h) == 5:
		if h[0] == 'Q' || h[0] == 'E' { // a simple query, or the execution of a prepared one
			w.statements.Add(1)
		}
		w.skip = int(binary.BigEndian.Uint32(h[1:])) - 4
		w.header = nil
	}
}

// readMySQL reads a header: a length of three bytes and a number, which is 0 when a command begins; then the command.
func (w *wire) readMySQL() {
	h := w.header
	if len(h) < 4 {
		return
	}
	size := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	if size == 0 {
		w.header = nil
	}
	if len(h) == 5 {
		if h[3] == 0 && (h[4] == mysqlQuery || h[4] == mysqlExecute) {
			w.statements.Add(1)
		}
		w.skip = size - 1
		w.header = nil
	}
}
