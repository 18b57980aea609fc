package cases

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
)

// A Cluster is a database of several nodes. Its fields are those of conformance.Cluster.
type Cluster struct {
	Nodes   []string
	Writer  func(ctx context.Context) (int, error)
	Kill    func(ctx context.Context, node int) error
	Restart func(ctx context.Context, node int) error
}

// cluster returns the cluster to work on. Without one it skips the case.
func (t *test) cluster() *Cluster {
	cl := t.Cluster
	if cl == nil {
		t.Skipf("the harness has no cluster whose nodes can be killed")
	}
	return cl
}

// nodeDSN returns where the i-th program of a case opens its client: a node of the cluster, or the only server.
func (t *test) nodeDSN(i int) string {
	if cl := t.Cluster; cl != nil {
		return cl.Nodes[i%len(cl.Nodes)]
	}
	return t.DSN
}

// writer returns the node that takes writes, or the i-th where all do.
func (t *test) writer(i int) int {
	cl := t.cluster()
	if cl.Writer == nil {
		return i % len(cl.Nodes)
	}
	node, err := cl.Writer(t.ctx)
	t.must(err)
	return node
}

// downTime is how long a killed node stays down while the others work.
const downTime = time.Second

// killAndRestart kills the node that takes writes, or the next of those that do, and restarts it when the others have
// taken a write. It calls soon right before the kill.
func (t *test) killAndRestart(next int, soon func()) {
	cl := t.cluster()
	node := t.writer(next)
	q := t.openDSN(t.nodeDSN(node)).Queue("first write")
	soon()
	killed := time.Now()
	t.must(cl.Kill(t.ctx, node))
	gone := time.Since(killed)
	task := dbq.NewTask{ID: dbq.NewID()}
	t.eventually("the other nodes take a write", func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		defer cancel()
		_, err := q.Enqueue(ctx, task)
		return err == nil || errors.Is(err, dbq.ErrDuplicate)
	})
	written := time.Since(killed)
	t.must(sleep(t.ctx, downTime))
	back := time.Now()
	t.must(cl.Restart(t.ctx, node))
	for _, task := range t.checkout(q, 1, long) { // no case is to find it
		t.must(q.Settle(t.ctx, task.Lease, dbq.Deleted()))
	}
	t.Logf("node %d: killed in %.1f s, the first write after %.1f s, back in %.1f s", node+1, gone.Seconds(),
		written.Seconds(), time.Since(back).Seconds())
}

// interrupted reports whether a call may end with an error while nodes die.
func interrupted(err error) bool {
	return errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) || errors.Is(err, dbq.ErrConflict)
}
