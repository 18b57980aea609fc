package store

import (
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// A page of a list reads a bounded part of the table, also if few tasks match: by the index of references or steps, by
// the index of the failed and leased tasks of a queue, of which it reads pageRows and compares the rest of the filter,
// or otherwise the tasks between two ids, of which pageWindows are looked at.
const pageRows = 2_000

var pageWindows = []int{500, 20_000} // the first one is enough for a filter that many tasks match

// Page is a part of a list.
type Page struct {
	Rows []dialect.Row
	// More reports whether the list may go on. The next page then begins after the id Next, or before it with NewestFirst.
	// Stopped means that the page ended because it had looked at enough tasks, up to Next, and not because it was full.
	More    bool
	Next    uuid.UUID
	Stopped bool
}

// ListPage is List at a cost that does not grow with the table. A page may have fewer than f.Limit tasks, or none,
// although the list goes on.
func (s *Store) ListPage(ctx context.Context, f Filter) (p Page, err error) {
	switch {
	case f.Reference != "" || f.Workflow != uuid.Nil || f.all():
		return s.whole(ctx, f)
	case f.Queue != "" && f.oneOf(state.Processing, state.Error, state.Poison):
		return s.compared(ctx, f)
	}
	for _, window := range pageWindows {
		part, err := s.window(ctx, f, window)
		if err != nil {
			return p, err
		}
		f = f.from(part.Next)
		f.Limit -= len(part.Rows)
		part.Rows = append(p.Rows, part.Rows...)
		if p = part; !p.Stopped || f.Limit == 0 {
			break
		}
	}
	return p, nil
}

// all reports whether a filter selects all tasks of a range of ids.
func (f Filter) all() bool {
	return f.Queue == "" && len(f.States) == 0 && f.Kind == "" && f.Key == "" && !f.ParkedOnly && !f.CancelledOnly &&
		!f.NotCancelled && f.InStateFor == 0 && f.EnteredWithin == 0
}

// oneOf reports whether a filter selects tasks of one state alone, and that is one of the given ones.
func (f Filter) oneOf(states ...state.State) bool {
	return len(f.States) == 1 && slices.Contains(states, f.States[0])
}

// from returns the filter of the tasks that follow an id in the order of the list.
func (f Filter) from(id uuid.UUID) Filter {
	if f.NewestFirst {
		f.Before = id
	} else {
		f.After = id
	}
	return f
}

// whole reads a page of tasks all of which match.
func (s *Store) whole(ctx context.Context, f Filter) (Page, error) {
	limit := f.Limit
	f.Limit++ // one more says whether there is a next page
	rows, err := s.List(ctx, f)
	return cut(Page{Rows: rows}, limit), err
}

// cut shortens a page to a limit.
func cut(p Page, limit int) Page {
	if len(p.Rows) > limit {
		p = Page{Rows: p.Rows[:limit], More: true, Next: p.Rows[limit-1].ID}
	}
	return p
}

// compared reads the next tasks of a queue and a state, and keeps those that match.
func (s *Store) compared(ctx context.Context, f Filter) (p Page, err error) {
	base := Filter{Queue: f.Queue, States: f.States, After: f.After, Before: f.Before, NewestFirst: f.NewestFirst,
		Limit: pageRows}
	if f.plain() {
		return s.whole(ctx, f)
	}
	rows, err := s.List(ctx, base)
	if len(rows) == pageRows {
		p = Page{More: true, Stopped: true, Next: rows[pageRows-1].ID}
	}
	for _, r := range rows {
		if f.matches(&r) {
			p.Rows = append(p.Rows, r)
		}
	}
	return cut(p, f.Limit), err
}

// plain reports whether a filter has no more than a queue, states and ids.
func (f Filter) plain() bool {
	f.Queue, f.States = "", nil
	return f.all()
}

// matches compares a row with what condition says of columns that no index leads to.
func (f Filter) matches(r *dialect.Row) bool {
	equal := func(want string, has *string) bool { return want == "" || has != nil && *has == want }
	since := r.Now - r.Updated
	return (f.Kind == "" || r.Kind == f.Kind) && equal(f.Key, r.TaskKey) &&
		(!f.ParkedOnly || r.Due == nil && r.State == state.Error) && (!f.CancelledOnly || r.Cancelled == 1) &&
		(!f.NotCancelled || r.Cancelled == 0) &&
		(f.InStateFor == 0 || since >= f.InStateFor.Microseconds()) &&
		(f.EnteredWithin == 0 || since <= f.EnteredWithin.Microseconds())
}

// window reads the tasks that match among the next n.
func (s *Store) window(ctx context.Context, f Filter, n int) (p Page, err error) {
	end, found, err := s.idOnwards(ctx, f, n-1)
	if err != nil {
		return p, err
	}
	limit := f.Limit
	if f.Limit++; found && f.NewestFirst {
		f.After = prevID(end)
	} else if found {
		f.Before = nextID(end)
	}
	where, args := f.condition(s.sql.Texts, nil, true)
	rows, err := s.listWhere(ctx, s.sql.Texts.List, where, args, f.NewestFirst)
	if p = cut(Page{Rows: rows}, limit); found && !p.More {
		p.More, p.Stopped, p.Next = true, true, end
	}
	return p, err
}

// idOnwards finds the id that is n tasks onwards in a list of all tasks.
func (s *Store) idOnwards(ctx context.Context, f Filter, n int) (uuid.UUID, bool, error) {
	after, before := f.After, f.Before
	if before == uuid.Nil {
		before = uuid.Max
	}
	if !f.NewestFirst {
		return s.idBehind(ctx, after, before, n)
	}
	var rows []dialect.Row
	err := s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = s.sql.Query(ctx, conn, s.sql.Texts.IDBefore, dialect.Args{"before": before, "offset": n})
		return err
	})
	if err != nil || len(rows) == 0 || after != uuid.Nil && slices.Compare(rows[0].ID[:], after[:]) <= 0 {
		return uuid.Nil, false, err
	}
	return rows[0].ID, true, nil
}
