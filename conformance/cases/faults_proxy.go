package cases

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
)

// throughProxy starts a proxy in front of the server of this case's DSN, or of the node that takes writes, and returns
// the DSN that leads through it.
func (t *test) throughProxy() (*proxy.Proxy, string) {
	dsn := t.DSN
	if t.Cluster != nil {
		dsn = t.nodeDSN(t.writer(0))
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skipf("the DSN names no host, so there is no network connection to cut")
	}
	if u.Port() == "" {
		t.Skipf("the DSN names no port, so the suite cannot put itself between client and server")
	}
	own, _, _ := strings.Cut(u.Host, ",") // of several nodes, the first is the one whose DSN this is
	p, err := proxy.New(own)
	t.must(err)
	t.Cleanup(p.Close)
	u.Host = p.Addr()
	return p, u.String()
}

// oneConnection opens a client whose requests come one after the other: it has one connection, and one for transactions
// that the case begins.
func (t *test) oneConnection(dsn string) *dbq.Client {
	u, err := url.Parse(dsn)
	t.must(err)
	q := u.Query()
	q.Set("pool_max_conns", "1")
	u.RawQuery = q.Encode()
	c, err := dbq.Open(t.ctx, u.String(), t.options(dbq.WithMigrate())...)
	if errors.Is(err, dbq.ErrDSN) { // a dialect that does not know the parameter
		c = t.openDSN(dsn)
		c.DB().SetMaxOpenConns(1)
		return c
	}
	t.must(err)
	t.register(c)
	return c
}

// callUnder makes a call through c while a rule is set, and closes c. meanwhile runs beside the call, and the proxy
// heals when it returns; if it is nil, the proxy heals when the call has returned. callUnder reports whether the rule
// was applied.
func (t *test) callUnder(p *proxy.Proxy, r proxy.Rule, c *dbq.Client, call func(ctx context.Context),
	meanwhile func(returned <-chan struct{})) bool {
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
	defer cancel()
	p.Set(r)
	if meanwhile == nil {
		call(ctx)
		return p.Heal()
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(ctx)
	}()
	meanwhile(returned)
	fired := p.Heal()
	<-returned
	return fired
}

// awaitFault waits until the rule was applied or the call has returned, which it reports. A lost answer has then been
// cut.
func (t *test) awaitFault(p *proxy.Proxy, r proxy.Rule, returned <-chan struct{}) (gone bool) {
	t.eventually("the connection is cut, or the call returns", func() bool {
		select {
		case <-returned:
			gone = true
		default:
		}
		return gone || p.Fired()
	})
	if r.LoseAnswer {
		time.Sleep(2 * proxy.AnswerPause) // the answer is cut when it has ended
	}
	return gone
}

// undisturbed is for calls without a fault.
func undisturbed(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

// arm sets a rule when the call begins.
func arm(p *proxy.Proxy, r proxy.Rule) func(ctx context.Context) (context.Context, func()) {
	return func(ctx context.Context) (context.Context, func()) {
		p.Set(r)
		return ctx, func() {}
	}
}
