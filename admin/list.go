package admin

import (
	"cmp"
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
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

// Page is a part of a list.
type Page struct {
	Tasks []dbq.Task
	// More reports whether the list may go on. The next page is ListPage with Next as Filter.After or, with NewestFirst,
	// as Filter.Before.
	More bool
	Next uuid.UUID
	// Stopped means that the page ended because it had looked at enough tasks, up to the id Next, which is as old as Upto.
	Stopped bool
	Upto    time.Time
}

// ListPage is List at a cost that does not grow with the table, also if few tasks match. A page can have fewer tasks
// than Filter.Limit, or none, although the list goes on: it looks at about 2,000 tasks if it has one queue and
// one state and an index leads to these, and otherwise at up to 20,500 tasks.
func (a *Admin) ListPage(ctx context.Context, f Filter) (Page, error) {
	return a.page(ctx, "list", f, a.store.ListPage)
}

// ArchivedPage is ListPage for the archive: it looks at about 2,000 tasks. It refuses Filter.NewestFirst.
func (a *Admin) ArchivedPage(ctx context.Context, f Filter) (Page, error) {
	if f.NewestFirst {
		return Page{}, a.wrap("archived", f.Queue, errNewestFirst)
	}
	return a.page(ctx, "archived", f, a.store.ListArchivePage)
}

func (a *Admin) page(ctx context.Context, op string, f Filter,
	read func(context.Context, store.Filter) (store.Page, error)) (p Page, err error) {
	p.Tasks, err = a.list(ctx, op, f, func(ctx context.Context, f store.Filter) ([]dialect.Row, error) {
		found, err := read(ctx, f)
		if p.More, p.Next, p.Stopped = found.More, found.Next, found.Stopped; p.Stopped {
			p.Upto = store.TimeOf(p.Next).UTC()
		}
		return found.Rows, err
	})
	return p, err
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
