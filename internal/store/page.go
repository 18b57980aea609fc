package store

import (
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// A page of a list reads a bounded part of the table, also if few tasks match: by the index of references or steps, by
// the index of a queue's tasks in a state (list_state.go), or otherwise the tasks between two ids. It looks at a first
// part, which is enough for a filter that many tasks match, and if that does not fill it at a second one.
const (
	pageFirst, pageRows = 200, 2_000 // of the tasks of a queue in a state, of the archive and of the audit
	windowFirst, window = 500, 10_000
)

// Page is a part of a list.
type Page struct {
	Rows []dialect.Row
	// More reports whether the list may go on. The next page then begins after the id Next, or before it with NewestFirst.
	// Stopped means that the page ended because it had looked at enough tasks, up to Next, and not because it was full.
	More    bool
	Next    uuid.UUID
	Stopped bool
}

// reading reads the tasks that match among the next n.
type reading func(ctx context.Context, f Filter, n int) (Page, error)

// ListPage is List at a cost that does not grow with the table. A page may have fewer than f.Limit tasks, or none,
// although the list goes on.
func (s *Store) ListPage(ctx context.Context, f Filter) (p Page, err error) {
	if f = f.narrowed(); f.Reference != "" || f.Workflow != uuid.Nil || f.all() {
		return s.whole(ctx, f)
	}
	if f.Queue != "" && len(f.States) == 1 {
		read, err := s.ofState(ctx, f)
		if err != nil {
			return p, err
		}
		if read != nil {
			return inParts(ctx, f, read, max(pageFirst, f.Limit+1), pageRows)
		}
	}
	return inParts(ctx, f, s.window, windowFirst, window)
}

// ListArchivePage is ListPage for the archive, which has no index but that of ids.
func (s *Store) ListArchivePage(ctx context.Context, f Filter) (Page, error) {
	if f = f.narrowed(); f.Workflow != uuid.Nil {
		limit := f.Limit
		f.Limit++
		rows, err := s.ListArchive(ctx, f)
		return cut(Page{Rows: rows}, limit), err
	}
	read := func(ctx context.Context, f Filter, n int) (Page, error) {
		rows, err := s.ListArchive(ctx, Filter{After: f.After, Before: f.Before, NewestFirst: f.NewestFirst, Limit: n})
		return f.among(rows, n), err
	}
	return inParts(ctx, f, read, max(pageFirst, f.Limit+1), pageRows)
}

// inParts reads a page in parts of some sizes until it is full.
func inParts(ctx context.Context, f Filter, read reading, sizes ...int) (p Page, err error) {
	for _, n := range sizes {
		part, err := read(ctx, f, n)
		if err != nil {
			return p, err
		}
		f = f.from(part.Next)
		f.Limit -= len(part.Rows)
		part.Rows = append(p.Rows, part.Rows...)
		if p = part; !p.Stopped || f.Limit <= 0 {
			break
		}
	}
	p.Stopped = p.Stopped && f.Limit > 0
	return p, nil
}

// narrowed adds the state that all tasks of a filter have to it.
func (f Filter) narrowed() Filter {
	if len(f.States) == 0 {
		switch {
		case f.Holder != "":
			f.States = []state.State{state.Processing}
		case f.CancelledOnly:
			f.States = []state.State{state.Poison}
		case f.ParkedOnly:
			f.States = []state.State{state.Error}
		}
	}
	return f
}

// all reports whether a filter selects all tasks of a range of ids.
func (f Filter) all() bool {
	return f.Queue == "" && len(f.States) == 0 && f.Kind == "" && f.Key == "" && f.Holder == "" && !f.ParkedOnly &&
		!f.CancelledOnly && !f.NotCancelled && f.InStateFor == 0 && f.EnteredWithin == 0
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

// cut shortens a page to a limit, but not between tasks of one id.
func cut(p Page, limit int) Page {
	for limit < len(p.Rows) && p.Rows[limit].ID == p.Rows[limit-1].ID {
		limit++
	}
	if len(p.Rows) > limit {
		p = Page{Rows: p.Rows[:limit], More: true, Next: p.Rows[limit-1].ID}
	}
	return p
}

// among returns the page of those rows that match. If the rows are as many as were asked for, the list may go on.
func (f Filter) among(rows []dialect.Row, n int) (p Page) {
	if len(rows) >= n {
		p = Page{More: true, Stopped: true, Next: rows[len(rows)-1].ID}
	}
	for _, r := range rows {
		if f.matches(&r) {
			p.Rows = append(p.Rows, r)
		}
	}
	return cut(p, f.Limit)
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
	err := s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = s.sql.Query(ctx, conn, s.sql.Texts.IDBefore, dialect.Args{"before": before, "offset": n})
		return err
	})
	if err != nil || len(rows) == 0 || after != uuid.Nil && slices.Compare(rows[0].ID[:], after[:]) <= 0 {
		return uuid.Nil, false, err
	}
	return rows[0].ID, true, nil
}
