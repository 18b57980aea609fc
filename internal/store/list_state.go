package store

import (
	"context"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// sortedMost is how many tasks of a queue and a state a list sorts, if no index has them in the order of their ids. If
// there are more, it reads tasks by their ids until enough are of the queue.
const sortedMost = 10_000

// ofState returns what reads the tasks of a queue in a state by an index, or nil if none leads to them at a bounded
// cost.
func (s *Store) ofState(ctx context.Context, f Filter) (reading, error) {
	index, found := s.sql.Texts.OfState[f.States[0]]
	if !found {
		return nil, nil
	}
	if condition, ordered := strings.CutSuffix(index, " ORDER BY id"); ordered {
		return func(ctx context.Context, f Filter, n int) (Page, error) {
			bounds, args := Filter{After: f.After, Before: f.Before, Limit: n}.condition(s.sql.Texts, nil, false)
			args["queue"] = f.Queue
			rows, err := s.listWhere(ctx, s.sql.Texts.List, bounds+" AND queue = :queue AND "+condition, args, f.NewestFirst)
			return f.among(rows, n), err
		}, nil
	}
	if condition, ordered := strings.CutSuffix(index, byPriority); ordered {
		return func(ctx context.Context, f Filter, n int) (Page, error) {
			ids, err := s.idsByPriority(ctx, f, condition, n)
			if err != nil {
				return Page{}, err
			}
			return s.pageOf(ctx, f, ids, n)
		}, nil
	}
	ids, err := s.someIDs(ctx, f.Queue, index)
	if err != nil || len(ids) > sortedMost {
		return nil, err
	}
	slices.SortFunc(ids, compareIDs)
	if f.NewestFirst {
		slices.Reverse(ids)
	}
	return func(ctx context.Context, f Filter, n int) (Page, error) {
		next := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool {
			return compareIDs(id, f.After) <= 0 || f.Before != uuid.Nil && compareIDs(id, f.Before) >= 0
		})
		return s.pageOf(ctx, f, next[:min(n, len(next))], n)
	}, nil
}

// pageOf returns the page of those tasks that match, of ids that are the next n.
func (s *Store) pageOf(ctx context.Context, f Filter, ids []uuid.UUID, n int) (Page, error) {
	rows, err := s.rowsOf(ctx, ids)
	p := f.among(rows, n)
	if len(ids) == n && !p.More { // a task that was removed meanwhile is missing among the rows
		p.More, p.Stopped, p.Next = true, true, ids[n-1]
	}
	return p, err
}

// byPriority is the order of an index that has the tasks of each priority in the order of their ids.
const byPriority = " ORDER BY priority, due_at, id"

const priorities = 10

// idPart is an id of a part of a statement.
type idPart struct {
	Part int       `db:"part"`
	ID   uuid.UUID `db:"id"`
}

// idsByPriority reads the next n ids of a queue by an index that is ordered byPriority: as many of each priority.
func (s *Store) idsByPriority(ctx context.Context, f Filter, condition string, n int) (ids []uuid.UUID, err error) {
	args, order := dialect.Args{"queue": f.Queue, "limit": n, "after": f.After, "before": f.Before}, "id"
	if f.Before == uuid.Nil {
		args["before"] = uuid.Max
	}
	if f.NewestFirst {
		order = "id DESC"
	}
	for p := range priorities {
		args[sqlrun.PartName("priority", p)] = p
	}
	text := sqlrun.ListText(s.sql.Texts.SomeIDs, "queue = :queue AND "+condition+
		" AND priority = :priority AND id > :after AND id < :before ORDER BY "+order, false)
	var rows []idPart
	err = s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = sqlrun.QueryAs[idPart](ctx, s.sql, conn, sqlrun.UnionText(text, priorities, "priority"), args)
		return err
	})
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	slices.SortFunc(ids, compareIDs)
	if f.NewestFirst {
		slices.Reverse(ids)
	}
	return ids[:min(n, len(ids))], err
}

// someIDs reads up to sortedMost+1 ids of tasks of a queue, in the order of an index of OfState.
func (s *Store) someIDs(ctx context.Context, queue, index string) ([]uuid.UUID, error) {
	var rows []dialect.Row
	err := s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		text := sqlrun.ListText(s.sql.Texts.SomeIDs, "queue = :queue AND "+index, false)
		rows, err = s.sql.Query(ctx, conn, text, dialect.Args{"queue": queue, "limit": sortedMost + 1})
		return err
	})
	return idsOf(rows), err
}

// rowsOf reads tasks without their payloads, in the order of the given ids.
func (s *Store) rowsOf(ctx context.Context, ids []uuid.UUID) (rows []dialect.Row, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		args := dialect.Args{"id": dialect.Col[uuid.UUID](ids)}
		rows, err = s.sql.QueryBatch(ctx, conn, s.sql.Texts.Poisoned, args, len(ids))
		return err
	})
	by := byID(rows)
	rows = rows[:0]
	for _, id := range ids {
		if r, ok := by[id]; ok {
			rows = append(rows, r)
		}
	}
	return rows, err
}

// ListSome reads up to limit tasks of a queue in a state, without their payloads, in the order of the index that leads
// to them. There may be more: it looks at no more than limit tasks. Without an index, it looks at the last ids.
func (s *Store) ListSome(ctx context.Context, queue string, in state.State, limit int) (
	rows []dialect.Row, more bool, err error) {
	index, found := s.sql.Texts.OfState[in]
	if !found {
		p, err := s.ListPage(ctx, Filter{Queue: queue, States: []state.State{in}, NewestFirst: true, Limit: limit})
		return p.Rows, p.More, err
	}
	text := sqlrun.ListText(s.sql.Texts.ListSome, "queue = :queue AND "+index, false)
	err = s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = s.sql.Query(ctx, conn, text, dialect.Args{"queue": queue, "limit": limit})
		return err
	})
	more = len(rows) == limit
	return slices.DeleteFunc(rows, func(r dialect.Row) bool { return r.State != in }), more, err
}

// CountMovable counts tasks that an event may change, up to f.Limit. It looks at no more than f.Limit tasks of a queue
// in each state or, if no index leads to them, at the first tasks by their ids. more reports that there may be more.
func (s *Store) CountMovable(ctx context.Context, f Filter, event state.Transition) (n int, more bool, err error) {
	if f = f.narrowed(); f.Reference != "" || f.Workflow != uuid.Nil {
		ids, err := s.ListIDs(ctx, f, event)
		return len(ids), len(ids) == f.Limit, err
	}
	states := event.FromStates()
	if len(f.States) > 0 {
		states = slices.DeleteFunc(states, func(in state.State) bool { return !slices.Contains(f.States, in) })
	}
	known := func(in state.State) bool { return s.sql.Texts.OfState[in] != "" }
	if f.Queue == "" || slices.ContainsFunc(states, func(in state.State) bool { return !known(in) }) {
		return s.countWindow(ctx, f, event)
	}
	for _, in := range states {
		f.States = []state.State{in}
		matches, args := f.condition(s.sql.Texts, &event, true)
		args["queue"] = f.Queue
		text := strings.ReplaceAll(s.sql.Texts.MatchSome, "{matches}", matches)
		text = sqlrun.ListText(text, "queue = :queue AND "+s.sql.Texts.OfState[in], false)
		var rows []sqlrun.SomeRow
		err := s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			rows, err = sqlrun.QueryAs[sqlrun.SomeRow](ctx, s.sql, conn, text, args)
			return err
		})
		if err != nil {
			return 0, false, err
		}
		for _, r := range rows {
			n, more = n+int(r.Matching), more || r.Looked >= int64(f.Limit)
		}
	}
	return min(n, f.Limit), more || n >= f.Limit, nil
}

// countWindow counts tasks that an event may change among the first ones by their ids.
func (s *Store) countWindow(ctx context.Context, f Filter, event state.Transition) (n int, more bool, err error) {
	end, found, err := s.idOnwards(ctx, f, window-1)
	if err != nil {
		return 0, false, err
	}
	if found {
		f.Before = nextID(end)
	}
	where, args := f.condition(s.sql.Texts, &event, true)
	rows, err := s.listWhere(ctx, s.sql.Texts.FindIDs, where, args, false)
	return len(rows), found || len(rows) == f.Limit, err
}
