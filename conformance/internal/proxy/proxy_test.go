package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// echo is a server that answers each line with itself, and remembers the lines.
type echo struct {
	net.Listener
	received chan string
	running  sync.WaitGroup
}

func newEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	e := &echo{Listener: l, received: make(chan string, 100)}
	t.Cleanup(func() { l.Close() })
	e.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.running.Go(func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					line, err := in.ReadString('\n')
					if line != "" {
						e.received <- line
					}
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, line); err != nil {
						return
					}
				}
			})
		}
	})
	return e
}

// got ends the server and returns everything that reached it. Its connections must have been closed.
func (e *echo) got() (all string) {
	e.Close()
	e.running.Wait()
	for len(e.received) > 0 {
		all += <-e.received
	}
	return all
}

type caller struct {
	net.Conn
	in *bufio.Reader
}

// dial connects through a proxy until the test ends.
// before returns a proxy before a server.
func before(t *testing.T, e *echo) *Proxy {
	t.Helper()
	p, err := New(e.Addr().String())
	check.OK(t, err)
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *Proxy) caller {
	conn, err := net.Dial("tcp", p.Addr())
	check.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return caller{conn, bufio.NewReader(conn)}
}

// exchange sends a line and returns the answer, within a time that only a stalled server exceeds.
func (c caller) exchange(line string) (string, error) { return c.exchangeWithin(line, time.Minute) }

func (c caller) exchangeWithin(line string, limit time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	return c.in.ReadString('\n')
}

func TestProxyCutsAtItsRule(t *testing.T) {
	for _, tt := range []struct {
		name     string
		rule     Rule
		answered int    // of the requests one, two and COMMIT
		got      string // what reached the server
	}{
		{"no rule", Rule{}, 3, "one\ntwo\nCOMMIT\n"},
		{"the first request", Rule{AtRequest: 1}, 0, ""},
		{"the second request", Rule{AtRequest: 2}, 1, "one\n"},
		{"the second answer", Rule{AtRequest: 2, LoseAnswer: true}, 1, "one\ntwo\n"},
		{"a text", Rule{AtText: regexp.MustCompile("COMMIT")}, 2, "one\ntwo\n"},
		{"the answer to a text", Rule{AtText: regexp.MustCompile("COMMIT"), LoseAnswer: true}, 2, "one\ntwo\nCOMMIT\n"},
		{"a byte", Rule{AtByte: 6}, 1, "one\ntw"},
		{"within an answer", Rule{AtRequest: 1, LoseAnswer: true, KeepBytes: 2}, 0, "one\n"},
		{"the last byte", Rule{AtByte: 8}, 1, "one\ntwo\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEcho(t)
			p := before(t, e)
			c := dial(t, p)
			p.Set(tt.rule)
			answered := 0
			var last string
			var err error
			for _, line := range []string{"one\n", "two\n", "COMMIT\n"} {
				if last, err = c.exchange(line); err != nil {
					break
				}
				answered++
			}
			if answered != tt.answered {
				t.Errorf("%d requests were answered, want %d", answered, tt.answered)
			}
			if tt.rule.KeepBytes > 0 && last != "on" {
				t.Errorf("of the answer came %q, want the first %d bytes", last, tt.rule.KeepBytes)
			}
			if fired := p.Heal(); fired != (answered < 3) {
				t.Errorf("Heal reports that the rule was applied: %v, want %v", fired, answered < 3)
			}
			p.Close()
			if got := e.got(); got != tt.got {
				t.Errorf("the server received %q, want %q", got, tt.got)
			}
		})
	}
}

func TestProxyStallsAndCloses(t *testing.T) {
	e := newEcho(t)
	p := before(t, e)
	c := dial(t, p)
	p.Set(Rule{AtRequest: 2, Stall: true})
	if _, err := c.exchange("one\n"); err != nil {
		t.Errorf("before the stall: %v", err)
	}
	if line, err := c.exchangeWithin("two\n", time.Second); err == nil {
		t.Errorf("during the stall: got %q, want no answer", line)
	}
	c.Close()
	p.Heal()
	if got := <-e.received + <-e.received; got != "one\ntwo\n" {
		t.Errorf("after the stall the server has received %q, want what was held back as well", got)
	}
	c = dial(t, p)
	p.GoDown()
	if _, err := c.exchange("three\n"); err == nil {
		t.Errorf("a connection survived the server's leave")
	}
	if conn, err := net.Dial("tcp", p.Addr()); err == nil { // it may come about, and be reset at once
		defer conn.Close()
		if _, err := (caller{conn, bufio.NewReader(conn)}).exchange("three\n"); err == nil {
			t.Errorf("a new connection reached the server while it was gone")
		}
	}
	p.Heal()
	if _, err := dial(t, p).exchange("three\n"); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

func TestStrandedConnectionsStayOpenAndNewOnesWork(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	p := before(t, e)
	c := dial(t, p)
	if _, err := c.exchange("one\n"); err != nil {
		t.Fatal(err)
	}
	p.Strand()
	var timeout net.Error
	if line, err := c.exchangeWithin("two\n", 50*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a stranded connection: got %q, %v, want no answer", line, err)
	}
	if _, err := dial(t, p).exchange("three\n"); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	p.Close()
	if got := e.got(); got != "one\nthree\n" {
		t.Errorf("the server received %q", got)
	}
}

// TestLateCutSparesConnectionsAfterHeal: the call whose answer is lost may return before the answer is cut.
func TestLateCutSparesConnectionsAfterHeal(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	p := before(t, e)
	first := dial(t, p)
	p.Set(Rule{AtRequest: 1, LoseAnswer: true, StayDown: true})
	if _, err := io.WriteString(first, "one\n"); err != nil {
		t.Fatal(err)
	}
	<-e.received // the answer is on its way; it is cut AnswerPause after it
	if !p.Heal() {
		t.Fatal("the rule was not applied")
	}
	second := dial(t, p)
	if _, err := second.exchange("two\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.in.ReadString('\n'); err == nil {
		t.Error("the first connection was not cut")
	}
	if _, err := second.exchange("three\n"); err != nil {
		t.Errorf("the second connection was cut with the first: %v", err)
	}
}
