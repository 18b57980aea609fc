package kit

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
)

type noServer struct{}

var errNoServer = errors.New("no server")

func (noServer) Connect(context.Context) (driver.Conn, error) { return nil, errNoServer }
func (noServer) Driver() driver.Driver                        { return nil }

func TestPoolForCallersIsSeparate(t *testing.T) {
	t.Parallel()
	p := NewPool(noServer{}, noServer{}, 3, time.Minute)
	if p.Caller == p.Write || p.Read != p.Write {
		t.Error("want the client's pool, and another for its callers")
	}
	if got := p.Caller.Stats().MaxOpenConnections; got != 3 {
		t.Errorf("callers have %d connections, want 3", got)
	}
	check.OK(t, p.Close())
	if err := p.Caller.PingContext(t.Context()); err == nil || errors.Is(err, errNoServer) {
		t.Errorf("got %v, want that the pool is closed", err)
	}
}

func TestTakeConns(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		conns int
		rest  string
	}{
		"":                                    {16, ""},
		"sslmode=require":                     {16, "sslmode=require"},
		"pool_max_conns=1":                    {1, ""},
		"sslmode=require&pool_max_conns=40":   {40, "sslmode=require"},
		"pool_max_conns=10000&options=-c%20a": {10000, "options=-c+a"},
	} {
		params, err := url.ParseQuery(query)
		check.OK(t, err)
		conns, err := TakeConns(dialect.DSN{Params: params})
		if err != nil || conns != want.conns || params.Encode() != want.rest {
			t.Errorf("%s: got %d %s %v, want %d %s", query, conns, params.Encode(), err, want.conns, want.rest)
		}
	}
}
