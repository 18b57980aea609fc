package admin

import (
	"cmp"
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Page is a part of a list.
type Page struct {
	Tasks []dbq.Task
	// More reports whether the list may continue. Filter.From(Next) selects the next page.
	More bool
	Next uuid.UUID
	// Stopped means that the page ended because it had looked at enough tasks, up to the id Next, which is as old as
	// Upto.
	Stopped bool
	Upto    time.Time
}

// List reads a page of tasks without their payloads, ordered by id. Its cost does not grow with the table. A page can
// have fewer tasks than Filter.Limit, or none, although the list continues: it looks at about 2,000 tasks if it has one
// queue and one state and an index leads to these, and otherwise at up to 20,500 tasks.
func (a *Admin) List(ctx context.Context, f Filter) (Page, error) {
	return a.list(ctx, "list", f, a.store.List)
}

// Archived is List for the archive, to which a dbq.Retention can move tasks: it looks at about 2,000 tasks. A page has
// all tasks of its last id, even if these are more than Filter.Limit. It refuses Filter.NewestFirst.
func (a *Admin) Archived(ctx context.Context, f Filter) (Page, error) {
	if f.NewestFirst {
		return Page{}, a.wrap("archived", f.Queue, errNewestFirst)
	}
	return a.list(ctx, "archived", f, a.store.ListArchive)
}

func (a *Admin) list(ctx context.Context, op string, f Filter,
	read func(context.Context, store.Filter) (store.Page, error)) (p Page, err error) {
	f.Limit = cmp.Or(f.Limit, defaultPage)
	var found store.Page
	if err = f.check(); err == nil {
		found, err = read(ctx, store.Filter(f))
	}
	if err != nil {
		return Page{}, a.wrap(op, f.Queue, err)
	}
	p = Page{Tasks: make([]dbq.Task, len(found.Rows)), More: found.More, Next: found.Next, Stopped: found.Stopped}
	for i, r := range found.Rows {
		p.Tasks[i] = access.Task(r)
	}
	if p.Stopped {
		p.Upto = store.TimeOf(p.Next).UTC()
	}
	return p, nil
}
