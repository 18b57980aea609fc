package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
)

// Cluster is a database of several nodes that the suite may kill. The cases of the group Failover need one, and those of Contention
// spread their workers over its nodes.
type Cluster struct {
	// Nodes are DSNs of the same database, one for each node: how a program is configured whose own node this is. A DSN should name the
	// other nodes, too, or lead through a proxy that knows them, so that the program can go on when its node is dead.
	Nodes []string
	// Writer is the index of the node that takes writes now. Nil says that all do.
	Writer func(ctx context.Context) (int, error)
	// Kill ends a node as kill -9 does, and returns when its processes are gone. What a failover manager does next, it does as well.
	Kill func(ctx context.Context, node int) error
	// Restart brings a killed node back on its own data, and returns when it is a member again.
	Restart func(ctx context.Context, node int) error
}

// cluster is the cluster to work on, or the end of the case.
func (t *T) cluster() *Cluster {
	cl := t.suite.h.Cluster
	if cl == nil {
		t.Skipf("the harness has no cluster whose nodes can be killed")
	}
	return cl
}

// place is where the i-th program of a case opens its client: a node of the cluster, or the only server.
func (t *T) place(i int) string {
	if cl := t.suite.h.Cluster; cl != nil {
		return cl.Nodes[i%len(cl.Nodes)]
	}
	return t.dsn
}

// writer is the node that takes writes, or the i-th where all do.
func (t *T) writer(i int) int {
	cl := t.cluster()
	if cl.Writer == nil {
		return i % len(cl.Nodes)
	}
	node, err := cl.Writer(t.ctx)
	t.Must(err)
	return node
}

// absence is how long a killed node stays away, while work goes on without it.
const absence = time.Second

// killAndRestart kills the node that takes writes, or the next of those that do, and brings it back when the others have taken a write. It
// calls soon right before the kill.
func (t *T) killAndRestart(next int, soon func()) {
	cl := t.cluster()
	node := t.writer(next)
	q := t.OpenDSN(t.place(node)).Queue("first write")
	soon()
	killed := time.Now()
	t.Must(cl.Kill(t.ctx, node))
	gone := time.Since(killed)
	task := dbq.NewTask{ID: dbq.NewID()}
	t.eventually("the other nodes take a write", func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		defer cancel()
		_, err := q.Enqueue(ctx, task)
		return err == nil || errors.Is(err, dbq.ErrDuplicate)
	})
	written := time.Since(killed)
	t.Must(rest(t.ctx, absence))
	back := time.Now()
	t.Must(cl.Restart(t.ctx, node))
	for _, task := range t.checkout(q, 1, long) { // no case is to find it
		t.Must(q.CompleteAndDelete(t.ctx, task.Lease))
	}
	t.Logf("node %d: killed in %.1f s, the first write after %.1f s, back in %.1f s", node+1, gone.Seconds(), written.Seconds(), time.Since(back).Seconds())
}

// cutOff reports whether an error is one that a call may end with while nodes die.
func cutOff(err error) bool {
	return errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) || errors.Is(err, dbq.ErrConflict)
}
