package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// maxOfID is how many tasks of one id the archive lists.
const maxOfID = 1000

// ListIDs reads the ids of up to f.Limit tasks that an event may change, in ascending order.
func (s *Store) ListIDs(ctx context.Context, f Filter, event state.Transition) ([]uuid.UUID, error) {
	rows, err := s.list(ctx, s.sql.Texts.FindIDs, f, &event)
	return idsOf(rows), err
}

func (s *Store) list(
	ctx context.Context, text string, f Filter, event *state.Transition,
) ([]dialect.Row, error) {
	where, args := f.condition(s.sql.Texts, event, false)
	return s.listWhere(ctx, text, where, args, f.NewestFirst)
}

// listWhere runs a text that lists tasks.
func (s *Store) listWhere(ctx context.Context, text, where string, args dialect.Args, newest bool) (
	[]dialect.Row, error) {
	return readRows[dialect.Row](sqlrun.Slow(ctx), s, sqlrun.ListText(text, where, newest), args)
}

// sortedMost is how many tasks of a queue and a state a list sorts, if no index has them in the order of their ids. If
// there are more, it reads tasks by their ids until enough are of the queue.
const sortedMost = 10_000

// ofState returns the condition that reads a queue's tasks in a state by an index, or nil if no index bounds the cost.
func (s *Store) ofState(ctx context.Context, f Filter) (reading, error) {
	index := s.sql.Texts.Indexes[f.States[0]]
	switch {
	case index.Where == "":
		return nil, nil
	case index.IDs == dialect.IDsOrdered:
		return func(ctx context.Context, f Filter, n int) (Page, error) {
			bounds, args := Filter{After: f.After, Before: f.Before, Limit: n}.condition(s.sql.Texts, nil, false)
			args["queue"] = f.Queue
			where := bounds + " AND queue = :queue AND " + index.Where
			rows, err := s.listWhere(ctx, s.sql.Texts.List, where, args, f.NewestFirst)
			return f.among(rows, n), err
		}, nil
	case index.IDs == dialect.IDsOrderedByPriority:
		return func(ctx context.Context, f Filter, n int) (Page, error) {
			ids, err := s.idsByPriority(ctx, f, index, n)
			if err != nil {
				return Page{}, err
			}
			return s.pageOf(ctx, f, ids, n)
		}, nil
	}
	rows, err := readRows[dialect.Row](sqlrun.Slow(ctx), s, sqlrun.IndexText(s.sql.Texts.SomeIDs, index),
		dialect.Args{"queue": f.Queue, "limit": sortedMost + 1})
	if err != nil || len(rows) > sortedMost {
		return nil, err
	}
	ids := idsOf(rows)
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
	rows, err := s.RowsOf(ctx, ids)
	p := f.among(rows, n)
	if len(ids) == n && !p.More { // a task that was removed meanwhile is missing among the rows
		p.More, p.Stopped, p.Next = true, true, ids[n-1]
	}
	return p, err
}

const priorities = 10

// idPart is an id of a part of a statement.
type idPart struct {
	Part int       `db:"part"`
	ID   uuid.UUID `db:"id"`
}

// idsByPriority reads the next n ids of a queue by an index with IDsOrderedByPriority: as many of each priority.
func (s *Store) idsByPriority(ctx context.Context, f Filter, by dialect.Index, n int) (ids []uuid.UUID, err error) {
	args := dialect.Args{"queue": f.Queue, "limit": n, "after": f.After, "before": f.Before}
	if f.Before == uuid.Nil {
		args["before"] = uuid.Max
	}
	by.Where += " AND priority = :priority AND id > :after AND id < :before"
	if by.Order = "id"; f.NewestFirst {
		by.Order = "id DESC"
	}
	for p := range priorities {
		args[sqlrun.PartName("priority", p)] = p
	}
	text := sqlrun.IndexText(s.sql.Texts.SomeIDs, by)
	rows, err := readRows[idPart](sqlrun.Slow(ctx), s, sqlrun.UnionText(text, priorities, "priority"), args)
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	slices.SortFunc(ids, compareIDs)
	if f.NewestFirst {
		slices.Reverse(ids)
	}
	return ids[:min(n, len(ids))], err
}

// RowsOf reads tasks without their payloads, in the order of the given ids.
func (s *Store) RowsOf(ctx context.Context, ids []uuid.UUID) (rows []dialect.Row, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err = read(sqlrun.Slow(ctx), s, func(ctx context.Context, conn dialect.Conn) ([]dialect.Row, error) {
		return queryIDs[dialect.Row](ctx, s, conn, s.sql.Texts.Poisoned, ids)
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
	index := s.sql.Texts.Indexes[in]
	if index.Where == "" {
		p, err := s.List(ctx, Filter{Queue: queue, States: []state.State{in}, NewestFirst: true, Limit: limit})
		return p.Rows, p.More, err
	}
	rows, err = readRows[dialect.Row](sqlrun.Slow(ctx), s, sqlrun.IndexText(s.sql.Texts.ListSome, index),
		dialect.Args{"queue": queue, "limit": limit})
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
	unknown := func(in state.State) bool { return s.sql.Texts.Indexes[in].Where == "" }
	if f.Queue == "" || slices.ContainsFunc(states, unknown) {
		return s.countWindow(ctx, f, event)
	}
	for _, in := range states {
		f.States = []state.State{in}
		matches, args := f.condition(s.sql.Texts, &event, true)
		args["queue"] = f.Queue
		text := strings.ReplaceAll(s.sql.Texts.MatchSome, "{matches}", matches)
		text = sqlrun.IndexText(text, s.sql.Texts.Indexes[in])
		rows, err := readRows[sqlrun.SomeRow](sqlrun.Slow(ctx), s, text, args)
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

// A page of a list reads a bounded part of the table, even if few tasks match: by the index of references or steps, by
// the index of a queue's tasks in a state (list_state.go), or otherwise the tasks between two ids. It looks at a first
// part, which is enough for a filter that many tasks match, and if that does not fill it at a second one.
const (
	pageFirst, pageRows = 200, 2_000 // of the tasks of a queue in a state, of the archive and of the audit
	windowFirst, window = 500, 10_000
)

// Page is a part of a list.
type Page struct {
	Rows []dialect.Row
	// More reports whether the list may go on. The next page then begins after the id Next, or before it with
	// NewestFirst. Stopped means that the page ended because it had looked at enough tasks, up to Next, and not because
	// it was full.
	More    bool
	Next    uuid.UUID
	Stopped bool
}

// reading reads the tasks that match among the next n.
type reading func(ctx context.Context, f Filter, n int) (Page, error)

// List reads tasks without their payloads, ordered by id, at a cost that does not grow with the table. A page may have
// fewer than f.Limit tasks, or none, although the list continues.
func (s *Store) List(ctx context.Context, f Filter) (p Page, err error) {
	if f = f.narrowed(); f.Reference != "" || f.Workflow != uuid.Nil || f.all() {
		return s.whole(ctx, f)
	}
	if f.Queue != "" && len(f.States) == 1 {
		page, err := s.ofState(ctx, f)
		if err != nil {
			return p, err
		}
		if page != nil {
			return inParts(ctx, f, page, max(pageFirst, f.Limit+1), pageRows)
		}
	}
	return inParts(ctx, f, s.window, windowFirst, window)
}

// ListArchive is List for the archive, whose only index is by id.
func (s *Store) ListArchive(ctx context.Context, f Filter) (Page, error) {
	if f = f.narrowed(); f.Workflow != uuid.Nil {
		limit := f.Limit
		f.Limit++
		rows, err := s.archived(ctx, f)
		return cut(Page{Rows: rows}, limit), err
	}
	page := func(ctx context.Context, f Filter, n int) (Page, error) {
		rows, err := s.archived(ctx, Filter{After: f.After, Before: f.Before, Limit: n})
		return f.among(rows, n), err
	}
	return inParts(ctx, f, page, max(pageFirst, f.Limit+1), pageRows)
}

// archived reads the archive, which can have several tasks of one id. The next page begins after an id, so a page does
// not end between them: it has all tasks of the last one, even if these are more than f.Limit.
func (s *Store) archived(ctx context.Context, f Filter) ([]dialect.Row, error) {
	rows, err := s.list(ctx, s.sql.Texts.ListArchive, f, nil)
	if err != nil || len(rows) == 0 || len(rows) < f.Limit {
		return rows, err
	}
	last := rows[len(rows)-1].ID
	f.After, f.Before, f.Limit = prevID(last), nextID(last), maxOfID
	same, err := s.list(ctx, s.sql.Texts.ListArchive, f, nil)
	for len(rows) > 0 && rows[len(rows)-1].ID == last {
		rows = rows[:len(rows)-1]
	}
	return append(rows, same...), err
}

// inParts reads a page in parts of some sizes until it is full.
func inParts(ctx context.Context, f Filter, read reading, sizes ...int) (p Page, err error) {
	for _, n := range sizes {
		part, err := read(ctx, f, n)
		if err != nil {
			return p, err
		}
		f = f.From(part.Next)
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
		!f.CancelledOnly && !f.NotCancelled && f.InStateFor == 0 && f.EnteredWithin == 0 &&
		f.EnteredSince.IsZero()
}

// From returns the filter of the tasks that follow an id in the order of the list.
func (f Filter) From(id uuid.UUID) Filter {
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
	rows, err := s.list(ctx, s.sql.Texts.List, f, nil)
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

// among returns the page of those rows that match. If there are n rows or more, there may be further ones.
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
	rows, err := readRows[dialect.Row](
		sqlrun.Slow(ctx), s, s.sql.Texts.IDBefore, dialect.Args{"before": before, "offset": n})
	if err != nil || len(rows) == 0 || after != uuid.Nil && compareIDs(rows[0].ID, after) <= 0 {
		return uuid.Nil, false, err
	}
	return rows[0].ID, true, nil
}

// Filter selects tasks. The zero value selects all; each field narrows it.
type Filter struct {
	Queue         string
	States        []state.State
	Kind          string
	Key           string
	Reference     string
	Workflow      uuid.UUID // only tasks of this workflow
	Holder        string    // only tasks in PROCESSING whose lease this worker holds
	ParkedOnly    bool
	CancelledOnly bool // cancelled tasks are in POISON
	NotCancelled  bool
	InStateFor    time.Duration // how long a task must have been in its state, by the database's clock
	EnteredWithin time.Duration // it came into its state at most that long ago
	EnteredSince  time.Time     // it came into its state then or later, by the database's clock; zero is any time
	After         uuid.UUID     // only tasks with a higher id
	Before        uuid.UUID     // only tasks with a lower id
	NewestFirst   bool          // by descending ids
	Limit         int
}

// heldBy compares the worker in the column holder, after which the token of the checkout follows. Both sides are of the
// type of the column, in bytes or characters.
const heldBy = "(holder = :holder OR substr(holder, 1, length(:held_by)) = :held_by)"

// condition returns the filter as a condition over plain columns, with states as literals, and its arguments. An event
// narrows it to the tasks that the event may change. byID makes the engine use the index of ids: the ids are a short
// range, and another index may find most of the table.
func (f Filter) condition(st sqlrun.Texts, event *state.Transition, byID bool) (string, dialect.Args) {
	conditions, args := []string{"1 = 1"}, dialect.Args{"limit": f.Limit}
	add := func(condition string) { conditions = append(conditions, condition) }
	compare := func(set bool, condition, name string, value any) {
		if set {
			add(condition)
			args[name] = value
		}
	}
	column := func(name, none string) string {
		if byID {
			return "coalesce(" + name + ", " + none + ")"
		}
		return name
	}
	compare(f.Queue != "", column("queue", "''")+" = :queue", "queue", f.Queue)
	compare(f.Reference != "", "reference = :reference", "reference", f.Reference)
	compare(f.Kind != "", "kind = :kind", "kind", f.Kind)
	compare(f.Key != "", column("task_key", "''")+" = :task_key", "task_key", f.Key)
	compare(f.Workflow != uuid.Nil, st.OfWorkflow, "workflow", f.Workflow)
	if compare(f.Holder != "", heldBy, "held_by", f.Holder+"#"); f.Holder != "" {
		args["holder"] = f.Holder
		add(column("state", "-1") + " = " + state.Literals(state.Processing))
	}
	if f.ParkedOnly {
		add("due IS NULL AND " + column("state", "-1") + " = " + state.Literals(state.Error))
	}
	if f.CancelledOnly {
		add("cancelled = 1")
		if len(f.States) == 0 { // the states have an index
			f.States = []state.State{state.Poison}
		}
	}
	if f.NotCancelled {
		add("cancelled = 0")
	}
	compare(f.EnteredWithin > 0, "updated >= "+st.Now+" - :within", "within", f.EnteredWithin.Microseconds())
	compare(!f.EnteredSince.IsZero(), "updated >= :since", "since", f.EnteredSince.UnixMicro())
	compare(f.InStateFor > 0, "updated <= "+st.Now+" - :age", "age", f.InStateFor.Microseconds())
	compare(f.After != uuid.Nil, "id > :after", "after", f.After)
	compare(f.Before != uuid.Nil, "id < :before", "before", f.Before)
	if len(f.States) > 0 {
		if byID {
			add(column("state", "-1") + " IN (" + state.Literals(f.States...) + ")")
		} else if add(state.Condition(f.States...)); len(f.States) == 1 && st.Indexes[f.States[0]].Filter != "" {
			add(st.Indexes[f.States[0]].Filter)
		}
	}
	if event != nil {
		add(state.Guard(*event, "due"))
	}
	return strings.Join(conditions, " AND "), args
}

// matches compares a row with condition, except for a workflow.
func (f Filter) matches(r *dialect.Row) bool {
	equal := func(want string, has *string) bool { return want == "" || has != nil && *has == want }
	since := r.Now - r.Updated
	return (f.Queue == "" || r.Queue == f.Queue) && (len(f.States) == 0 || slices.Contains(f.States, r.State)) &&
		(f.Kind == "" || r.Kind == f.Kind) && equal(f.Key, r.TaskKey) && equal(f.Reference, r.Reference) &&
		(f.Holder == "" || r.State == state.Processing && r.Holder != nil &&
			(*r.Holder == f.Holder || strings.HasPrefix(*r.Holder, f.Holder+"#"))) &&
		(!f.ParkedOnly || r.Due == nil && r.State == state.Error) && (!f.CancelledOnly || r.Cancelled == 1) &&
		(!f.NotCancelled || r.Cancelled == 0) &&
		(f.InStateFor == 0 || since >= f.InStateFor.Microseconds()) &&
		(f.EnteredWithin == 0 || since <= f.EnteredWithin.Microseconds()) &&
		(f.EnteredSince.IsZero() || r.Updated >= f.EnteredSince.UnixMicro())
}

// parted is a row with the number of its part of a statement.
type parted interface{ of() int }

type (
	countPart struct {
		Part int `db:"part"`
		sqlrun.CountRow
	}
	recordPart struct {
		Part int `db:"part"`
		Record
	}
)

func (r countPart) of() int  { return r.Part }
func (r recordPart) of() int { return r.Part }

// queryUnion runs a query once for each value of a name, up to most of them in one statement, and calls add for each
// row.
func queryUnion[T parted](ctx context.Context, s *Store, conn dialect.Conn, text, name string, values []string,
	most int, args dialect.Args, add func(value string, row T)) error {
	union, parts := "", 0 // making it for each chunk took a third of a count of 10,000 queues
	for some := range slices.Chunk(values, most) {
		n, all := roundUp(len(some), most), maps.Clone(args)
		if n != parts {
			union, parts = sqlrun.UnionText(text, n, name), n
		}
		if all == nil {
			all = dialect.Args{}
		}
		for i := range n {
			all[sqlrun.PartName(name, i)] = "" // no queue has this name, so the part costs little
			if i < len(some) {
				all[sqlrun.PartName(name, i)] = some[i]
			}
		}
		rows, err := sqlrun.QueryAs[T](ctx, s.sql, conn, union, all)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if i := r.of(); i < len(some) {
				add(some[i], r)
			}
		}
	}
	return nil
}

// roundUp rounds the number of parts up, so that there are few different texts, which session and engine prepare.
func roundUp(n, most int) int {
	step := 1
	if n > 4 {
		step = 10
	}
	return min((n+step-1)/step*step, most)
}

// listed are the records of some namespaces that one statement reads.
type listed struct {
	store      *Store
	namespaces []string

	read sync.Once
	by   map[string][]Record
	err  error
}

type listedKey struct{}

// ListAtOnce returns a context in which the first ListKV of one of the namespaces reads the records of all of them, by
// one statement. Later calls return the same rows.
func (s *Store) ListAtOnce(ctx context.Context, namespaces ...string) context.Context {
	return context.WithValue(ctx, listedKey{}, &listed{store: s, namespaces: namespaces})
}

// list reads the records of all namespaces, once.
func (l *listed) list(ctx context.Context) {
	l.by, l.err = read(ctx, l.store, func(ctx context.Context, conn dialect.Conn) (map[string][]Record, error) {
		by := map[string][]Record{}
		err := queryUnion(ctx, l.store, conn, l.store.sql.Texts.ListKV, "namespace", l.namespaces, len(l.namespaces),
			dialect.Args{"limit": maxRecords}, func(namespace string, r recordPart) {
				by[namespace] = append(by[namespace], r.Record)
			})
		return by, err
	})
	for _, records := range l.by {
		slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
	}
}
