package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

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
