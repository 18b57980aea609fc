package kit

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A TrackedConn is a network connection that knows when bytes last arrived on it. A call uses it to tell a slow answer
// from a silent server.
type TrackedConn struct {
	net.Conn
	arrived atomic.Int64 // since started
}

// Arrived returns when bytes last arrived.
func (c *TrackedConn) Arrived() time.Time { return started.Add(time.Duration(c.arrived.Load())) }

// started has the monotonic clock, so that setting this computer's clock changes nothing.
var started = time.Now()

// Read notes when bytes arrive.
func (c *TrackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.arrived.Store(int64(time.Since(started)))
	}
	return n, err
}

// SyscallConn is for a driver that examines idle connections.
func (c *TrackedConn) SyscallConn() (syscall.RawConn, error) {
	if conn, ok := c.Conn.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

type trackingKey struct{}

// WithTracking returns a context that gives uses the TrackedConn of each connection that is taken from a pool with it.
func WithTracking(ctx context.Context, uses func(*TrackedConn)) context.Context {
	return context.WithValue(ctx, trackingKey{}, uses)
}

// TakenWith reports that a connection is taken from the pool with ctx. A driver calls it in ResetSession, and Dial for
// a new connection.
func (c *TrackedConn) TakenWith(ctx context.Context) {
	if uses, ok := ctx.Value(trackingKey{}).(func(*TrackedConn)); ok && c != nil {
		uses(c)
	}
}

// Dialer opens network connections.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial makes TrackedConns.
func (dial Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tracked := &TrackedConn{Conn: c}
	tracked.TakenWith(ctx)
	return tracked, nil
}
