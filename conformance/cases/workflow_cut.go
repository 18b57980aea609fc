package cases

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/workflow"
)

// crash closes a client as soon as the proxy has cut its connection, or its call has returned.
func crash(p *proxy.Proxy, c *dbq.Client, returned <-chan error) error {
	for {
		select {
		case err := <-returned:
			c.Close()
			return err
		case <-time.After(time.Millisecond):
			if p.Fired() {
				c.Close()
				return <-returned
			}
		}
	}
}

// workflowCut cuts each request of the end of a task, and of the enqueue of a workflow, in turn, and the client does
// not come back.
func workflowCut(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	for _, answer := range []bool{false, true} {
		for _, cut := range []func(c, direct *dbq.Client, queue string, disturbed func(func() error) error){
			t.cutEnd, t.cutWorkflow,
		} {
			for k, fired := 1, true; fired && k <= maxRequests; k++ {
				c := t.oneConnection(dsn)
				cut(c, direct, fmt.Sprintf("cut %d", subjects.Add(1)), func(call func() error) error {
					p.Set(proxy.Rule{AtRequest: k, LoseAnswer: answer, StayDown: true})
					returned := make(chan error)
					go func() { returned <- call() }()
					err := crash(p, c, returned)
					fired = p.Heal()
					return err
				})
			}
		}
	}
	t.eventually("no change is left", func() bool {
		var n int
		t.must(workflow.Resume(t.ctx, direct))
		query := "SELECT COUNT(*) FROM " + t.Prefix + "kv WHERE namespace = 'workflow'"
		t.must(direct.DB().QueryRowContext(t.ctx, query).Scan(&n))
		return n == 0
	})
}

// cutEnd disturbs the end of a task that another one needs.
func (t *test) cutEnd(c, direct *dbq.Client, queue string, disturbed func(func() error) error) {
	q := direct.Queue(queue)
	w := t.enqueueSteps(direct, stepsOf(q, []string{"a"}, []string{"b", "a"}))
	a := t.take(q, long)
	err := disturbed(func() error { return c.Queue(queue).Complete(t.ctx, a.Lease, nil) })
	if err != nil {
		err = q.Complete(t.ctx, a.Lease, nil)
		if errors.Is(err, dbq.ErrLeaseLost) && t.get(direct, a.ID).State == dbq.StateCompleted {
			err = nil // the first call has done it
		}
	}
	t.must(err)
	var b []dbq.Task
	t.eventually("what needs the task is due in "+queue, func() bool {
		t.must(workflow.Resume(t.ctx, direct))
		b = t.checkout(q, 10, long)
		return len(b) > 0
	})
	t.wantIDs("in "+queue, b, w.Tasks[1:])
	t.must(q.Complete(t.ctx, b[0].Lease, nil))
}

// cutWorkflow disturbs the enqueue of a workflow.
func (t *test) cutWorkflow(c, direct *dbq.Client, queue string, disturbed func(func() error) error) {
	var w workflow.Enqueued
	err := disturbed(func() (err error) {
		w, err = workflow.Enqueue(t.ctx, c, fourSteps(c.Queue(queue)))
		return err
	})
	t.wantAllOrNone(direct, queue, w.Tasks, err)
}
