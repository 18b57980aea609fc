package console

import (
	"context"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/schedule"
)

// listed has the settings of operators, the workers and the schedules.
type listed struct {
	Queues    []admin.QueueInfo
	Workers   []admin.WorkerInfo
	Schedules []schedule.Info
}

// list reads the settings, limits and pauses of queues, the workers and the schedules by one statement.
func (d *database) list(ctx context.Context) (l listed, err error) {
	ctx = access.Of(d.client).Store.ListAtOnce(ctx, store.NamespaceSettings, store.NamespaceLimit,
		store.NamespacePause, store.NamespaceWorkers, store.NamespaceSchedules)
	if l.Queues, err = d.admin.Queues(ctx); err != nil {
		return l, err
	}
	if l.Workers, err = d.admin.Workers(ctx); err != nil {
		return l, err
	}
	l.Schedules, err = d.schedules.List(ctx)
	return l, err
}

// seenBy returns the part of a list that a user may see.
func (l listed) seenBy(v *visit) listed {
	return listed{
		Queues:    keep(l.Queues, func(q admin.QueueInfo) bool { return v.may(auth.Read, q.Queue) }),
		Workers:   keep(l.Workers, func(w admin.WorkerInfo) bool { return v.may(auth.Read, w.Queue) }),
		Schedules: keep(l.Schedules, func(s schedule.Info) bool { return v.may(auth.Read, s.Queue) }),
	}
}

// listed returns the part of the lists that the user may see.
func (v *visit) listed() (listed, error) {
	l, err := v.db.listed.get(v.ctx(), v.db.list)
	return l.seenBy(v), err
}
