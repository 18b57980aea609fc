package dialect

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A Line is a network connection that knows when bytes last arrived on it. A call uses it to tell a slow answer from a
// silent server.
type Line struct {
	net.Conn
	arrived atomic.Int64 // since started
}

// Arrived returns when bytes last arrived.
func (l *Line) Arrived() time.Time { return started.Add(time.Duration(l.arrived.Load())) }

// started has the monotonic clock, so that setting this computer's clock changes nothing.
var started = time.Now()

// Read notes when bytes arrive.
func (l *Line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.arrived.Store(int64(time.Since(started)))
	}
	return n, err
}

// SyscallConn is for a driver that examines idle connections.
func (l *Line) SyscallConn() (syscall.RawConn, error) {
	if c, ok := l.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

type lineKey struct{}

// WithLine returns a context that gives uses the Line of each connection that is taken from a pool with it.
func WithLine(ctx context.Context, uses func(*Line)) context.Context {
	return context.WithValue(ctx, lineKey{}, uses)
}

// TakenWith reports that a connection is taken from the pool with ctx. A driver calls it in ResetSession, and Dial for
// a new connection.
func (l *Line) TakenWith(ctx context.Context) {
	if uses, ok := ctx.Value(lineKey{}).(func(*Line)); ok && l != nil {
		uses(l)
	}
}

// Dialer opens network connections.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial makes Lines.
func (dial Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l := &Line{Conn: c}
	l.TakenWith(ctx)
	return l, nil
}
