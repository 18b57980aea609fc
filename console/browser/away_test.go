package browser

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
)

func TestDatabaseGoesAwayWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		p := openAs(t, dbqtest.New(t).Client, auth.Loopback{})
		p.do(chromedp.Navigate(p.url))
		p.server.CloseClientConnections()
		p.client.Close()
		p.keepsItsTable()
	})
	t.Run("postgres18", func(t *testing.T) {
		t.Parallel()
		dsn := postgresDSN(t)
		address, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		between := &proxy{t: t, server: address.Host}
		between.open()
		t.Cleanup(between.close)
		address.Host = between.address
		p := openAs(t, openPostgres(t, address.String(), dsn), auth.Loopback{})
		p.do(chromedp.Navigate(p.url), chromedp.Evaluate[chromedp.Void]("window.same = true; undefined"))
		between.close()
		p.keepsItsTable()
		between.open()
		if _, err := p.client.Queue("fresh").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Fatal(err)
		}
		p.do(chromedp.WaitVisible(chromedp.CSS(`a[href*="queue=fresh"]`)))
		p.until(`document.getElementById("stale").hidden`)
		if !value[bool](p, "window.same === true") {
			t.Error("the page was loaded again")
		}

		between.close()
		p.do(chromedp.Navigate(p.url + "tasks"))
		if title := value[string](p, `document.querySelector("h1").textContent`); title !=
			"The database cannot be reached" {
			t.Errorf("a page that is opened without the database says %q", title)
		}
		between.open()
		p.do(chromedp.Navigate(p.url + "tasks"))
		if rows := p.rows(); len(rows) == 0 {
			t.Error("after the database is back, no task is listed")
		}
	})
}

// keepsItsTable waits until the page says that it may be out of date, and checks that it still shows its table.
func (p *page) keepsItsTable() {
	p.t.Helper()
	p.do(chromedp.WaitVisible(chromedp.CSS("#stale")))
	if got := value[int](p, `document.querySelectorAll("#live table").length`); got != 1 {
		p.t.Error("the page lost what it showed")
	}
}

// proxy passes TCP connections on to a server while it is open.
type proxy struct {
	t       *testing.T
	server  string
	address string // the same each time that it opens

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
}

func (x *proxy) open() {
	x.t.Helper()
	address := x.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		x.t.Fatal(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.address, x.listener, x.conns = l.Addr().String(), l, map[net.Conn]bool{}
	go x.accept(l)
}

// close ends all connections, and refuses others.
func (x *proxy) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.listener == nil {
		return
	}
	x.listener.Close()
	x.listener = nil
	for c := range x.conns {
		c.Close()
	}
}

func (x *proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", x.server)
		if err != nil {
			client.Close()
			continue
		}
		if !x.keep(l, client, server) {
			client.Close()
			server.Close()
			return
		}
		for _, c := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(c[0], c[1]) // until one of them is closed
				c[0].Close()
				c[1].Close()
			}()
		}
	}
}

// keep registers the connections of a listener, unless it is closed.
func (x *proxy) keep(l net.Listener, conns ...net.Conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.listener != l {
		return false
	}
	for _, c := range conns {
		x.conns[c] = true
	}
	return true
}
