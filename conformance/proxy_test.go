package conformance

import (
	"bufio"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

// echo is a server that answers each line with itself, and remembers what it was asked.
type echo struct {
	net.Listener
	asked chan string
}

func newEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: l, asked: make(chan string, 100)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					line, err := in.ReadString('\n')
					if line != "" {
						e.asked <- line
					}
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return e
}

// hears waits for the next thing that reached the server.
func (e *echo) hears() string {
	select {
	case line := <-e.asked:
		return line
	case <-time.After(100 * time.Millisecond):
		return ""
	}
}

type caller struct {
	net.Conn
	in *bufio.Reader
}

func (c caller) ask(line string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	return c.in.ReadString('\n')
}

func TestProxyCutsWhereItShould(t *testing.T) {
	for _, tt := range []struct {
		name     string
		rule     rule
		answered int    // of the requests one, two and COMMIT
		heard    string // what reached the server
	}{
		{"no rule", rule{}, 3, "one\ntwo\nCOMMIT\n"},
		{"the first request", rule{atAsk: 1}, 0, ""},
		{"the second request", rule{atAsk: 2}, 1, "one\n"},
		{"the second answer", rule{atAsk: 2, answer: true}, 1, "one\ntwo\n"},
		{"a text", rule{atText: regexp.MustCompile("COMMIT")}, 2, "one\ntwo\n"},
		{"the answer to a text", rule{atText: regexp.MustCompile("COMMIT"), answer: true}, 2, "one\ntwo\nCOMMIT\n"},
		{"a byte", rule{atByte: 6}, 1, "one\ntw"},
		{"within an answer", rule{atAsk: 1, answer: true, keep: 2}, 0, "one\n"},
		{"the last byte", rule{atByte: 8}, 1, "one\ntwo\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEcho(t)
			p, err := newProxy(e.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			conn, err := net.Dial("tcp", p.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			c := caller{conn, bufio.NewReader(conn)}
			p.set(tt.rule)
			answered := 0
			var last string
			for _, line := range []string{"one\n", "two\n", "COMMIT\n"} {
				if last, err = c.ask(line); err != nil {
					break
				}
				answered++
			}
			if answered != tt.answered {
				t.Errorf("%d requests were answered, want %d", answered, tt.answered)
			}
			if tt.rule.keep > 0 && last != "on" {
				t.Errorf("of the answer came %q, want the first %d bytes", last, tt.rule.keep)
			}
			var heard strings.Builder
			for line := e.hears(); line != ""; line = e.hears() {
				heard.WriteString(line)
			}
			if heard.String() != tt.heard {
				t.Errorf("the server heard %q, want %q", heard.String(), tt.heard)
			}
			if fired := p.heal(); fired != (answered < 3) {
				t.Errorf("heal says that the rule had its moment: %v, want %v", fired, answered < 3)
			}
		})
	}
}

func TestProxyStallsAndLeaves(t *testing.T) {
	e := newEcho(t)
	p, err := newProxy(e.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	dial := func() caller {
		conn, err := net.Dial("tcp", p.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return caller{conn, bufio.NewReader(conn)}
	}
	c := dial()
	p.set(rule{atAsk: 2, stalled: true})
	if _, err := c.ask("one\n"); err != nil {
		t.Errorf("before the stall: %v", err)
	}
	if line, err := c.ask("two\n"); err == nil {
		t.Errorf("during the stall: got %q, want no answer", line)
	}
	c.Close()
	p.heal()
	if heard := e.hears() + e.hears(); heard != "one\ntwo\n" {
		t.Errorf("after the stall the server has heard %q, want what was held as well", heard)
	}
	c = dial()
	p.leave()
	if _, err := c.ask("three\n"); err == nil {
		t.Errorf("a connection survived the server's leave")
	}
	if conn, err := net.Dial("tcp", p.listener.Addr().String()); err == nil { // it may come about, and be reset at once
		defer conn.Close()
		if _, err := (caller{conn, bufio.NewReader(conn)}).ask("three\n"); err == nil {
			t.Errorf("a new connection reached the server while it was gone")
		}
	}
	p.heal()
	if _, err := dial().ask("three\n"); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}
