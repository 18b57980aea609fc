package admin

import (
	"cmp"
	"context"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
)

// List reads tasks without their payloads, ordered by id. For the next page, set Filter.After to the last id of this
// one; with Filter.NewestFirst, set Filter.Before.
func (a *Admin) List(ctx context.Context, f Filter) ([]dbq.Task, error) {
	return a.list(ctx, "list", f, a.store.List)
}

// Archived is List for the archive, to which a dbq.Retention can move tasks. It refuses Filter.NewestFirst.
func (a *Admin) Archived(ctx context.Context, f Filter) ([]dbq.Task, error) {
	if f.NewestFirst {
		return nil, a.wrap("archived", f.Queue, errNewestFirst)
	}
	return a.list(ctx, "archived", f, a.store.ListArchive)
}

func (a *Admin) list(ctx context.Context, op string, f Filter,
	read func(context.Context, store.Filter) ([]dialect.Row, error)) ([]dbq.Task, error) {
	f.Limit = cmp.Or(f.Limit, defaultPage)
	err := f.check()
	var rows []dialect.Row
	if err == nil {
		rows, err = read(ctx, store.Filter(f))
	}
	if err != nil {
		return nil, a.wrap(op, f.Queue, err)
	}
	tasks := make([]dbq.Task, len(rows))
	for i, r := range rows {
		tasks[i] = access.Task(r)
	}
	return tasks, nil
}
