package cases

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/google/uuid"
)

// prepareUnique enqueues a task that the call replaces.
func prepareUnique(t *test, q *dbq.Queue, s *faultRun) {
	s.before = []uuid.UUID{t.enqueue(q, dbq.NewTask{Delay: long, Priority: 1, Unique: replacing("waits")})}
}

func callEnqueueUnique(ctx context.Context, q *dbq.Queue, s *faultRun) (err error) {
	s.added, err = q.EnqueueMany(ctx, []dbq.NewTask{
		{Delay: long, Priority: 2, Unique: pending("new")},
		{Delay: long, Priority: 2, Unique: replacing("waits")},
	})
	return err
}

func didEnqueueUnique(in []dbq.Task, s *faultRun) (bool, string) {
	added, replaced := 0, false
	for _, task := range in {
		switch {
		case task.ID != s.before[0]:
			added++
			if s.err == nil && s.added[0] != (dbq.Enqueued{ID: task.ID}) {
				return true, fmt.Sprintf("it answered %+v for the new task %s", s.added[0], task.ID)
			}
		case task.Priority == 2:
			replaced = true
			if s.err == nil && s.added[1] != (dbq.Enqueued{ID: task.ID, Replaced: true}) {
				return true, fmt.Sprintf("it answered %+v for the replaced task %s", s.added[1], task.ID)
			}
		}
	}
	switch {
	case added > 1:
		return true, fmt.Sprintf("it added %d tasks with one key", added)
	case (added == 1) != replaced:
		return true, fmt.Sprintf("it did half of its work: added %d, replaced %v", added, replaced)
	}
	return replaced, ""
}

// cutBeforeReplace cuts the connection before each request of an enqueue that adds nothing in turn. Nothing in the
// database proves that a replacement was not committed, or that it was.
func cutBeforeReplace(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	for k, fired := 1, true; fired && k <= maxRequests; k++ {
		q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
		id := t.enqueue(q, dbq.NewTask{Delay: long, Priority: 1, Unique: replacing("waits")})
		c := t.oneConnection(dsn)
		var err error
		fired = t.callUnder(p, proxy.Rule{AtRequest: k}, c, func(ctx context.Context) {
			_, err = c.Queue(q.Name()).Enqueue(ctx, dbq.NewTask{Delay: long, Priority: 2, Unique: replacing("waits")})
		}, nil)
		switch replaced := t.get(direct, id).Priority == 2; {
		case err == nil && !replaced:
			t.Errorf("cut before request %d, it answered that it has replaced the task, and it has not", k)
		case err != nil && replaced && !errors.Is(err, dbq.ErrMayHaveHappened):
			t.Errorf("cut before request %d, it has replaced the task, and answered %v", k, err)
		}
	}
}
