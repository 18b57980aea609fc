package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Origin describes who calls, and from where; see admin.Origin.
type Origin struct {
	By, Reason, Program, Address, Request string
}

type originKey struct{}

// WithOrigin returns a context whose operators' calls are of this origin.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns the origin of a context, or the zero value.
func OriginOf(ctx context.Context) Origin {
	o, _ := ctx.Value(originKey{}).(Origin)
	return o
}

// Audit is the entry of one operator's call. Each transaction of the call that changes something adds a row: the first
// one has all of the entry, and later ones, its further parts, only their own changes. So the entry always counts the
// committed changes, and no row is ever updated.
type Audit struct {
	Origin
	Action  string
	Queue   string
	Subject string    // the name of the changed thing, if it is neither a queue nor a task
	TaskID  uuid.UUID // if the call changes one task
	Filter  string    // as JSON, if it changes many
	// Show returns the value of a key/value record as the audit keeps it. Without it, that is the value.
	Show func(value string) string

	id   uuid.UUID
	part int
}

// The origin of a program that gives none.
const library = "library"

// The most characters of a reason, and of each other text of an origin.
const (
	MaxReason = 1000
	maxOrigin = 200
)

// Audited returns a context whose next change, by one call of the store, adds the entry a. by is the operator's name
// unless a or the context has one.
func Audited(ctx context.Context, by string, a Audit) (context.Context, error) {
	o := OriginOf(ctx)
	a.By, a.Reason, a.Program = cmp.Or(a.By, o.By, by), cmp.Or(a.Reason, o.Reason), cmp.Or(o.Program, library)
	a.Address, a.Request = o.Address, o.Request
	for _, text := range []struct {
		text, what string
		most       int
	}{
		{a.By, "operator's name", maxOrigin}, {a.Reason, "reason", MaxReason}, {a.Program, "program's name", maxOrigin},
		{a.Address, "address", maxOrigin}, {a.Request, "request id", maxOrigin},
	} {
		if err := bounds.Text(text.text, 0, text.most, errs.ErrOption, text.what); err != nil {
			return nil, err
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	a.id = id
	return context.WithValue(ctx, auditKey{}, &a), nil
}

type auditKey struct{}

// auditOf returns the entry that a context has, or nil.
func auditOf(ctx context.Context) *Audit {
	a, _ := ctx.Value(auditKey{}).(*Audit)
	return a
}

// committed records that a transaction that has added a row was committed.
func (a *Audit) committed() {
	if a != nil {
		a.part++
	}
}

// addAudit adds the row of a transaction that has changed something. Without an entry it does nothing.
func (s *Store) addAudit(ctx context.Context, conn dialect.Conn, a *Audit, before, after string, changed int) error {
	if a == nil || changed == 0 {
		return nil
	}
	row := Audit{}
	if a.part == 0 {
		row = *a
	} else {
		before, after = "", ""
	}
	args := dialect.Args{"id": a.id, "part": a.part, "who": row.By, "program": row.Program, "address": row.Address,
		"request": row.Request, "action": row.Action, "queue": row.Queue, "subject": row.Subject, "task": nil,
		"task_filter": row.Filter, "reason": row.Reason, "old_value": before, "new_value": after, "changed": changed}
	if row.TaskID != uuid.Nil {
		args["task"] = row.TaskID
	}
	_, err := s.sql.Exec(ctx, conn, s.sql.Texts.AddAudit, args)
	if s.sql.Class(err) == dialect.Duplicate {
		err = errAudited
	}
	return err
}

// errAudited means that an earlier try of the same transaction was committed, although its answer was lost: its row is
// there. The role of operators may not read it.
var errAudited = errors.New("the change was made by an earlier try")

// writeAudited is writeTx for a change that adds a row to the audit if a is not nil. earlier reports that the last try
// was rolled back because the one before it had been committed.
func (s *Store) writeAudited(ctx context.Context, a *Audit, change changeFunc) (earlier bool, err error) {
	write := s.writeTx
	if a == nil {
		write = s.write
	}
	err = write(ctx, change)
	if errors.Is(err, errAudited) {
		return true, nil
	}
	return false, err
}

// auditKV adds the row of a change of a key/value record. before or after is "" for none.
func (s *Store) auditKV(ctx context.Context, conn dialect.Conn, a *Audit, before, after string) error {
	if a != nil && a.Show != nil {
		before, after = shown(a.Show, before), shown(a.Show, after)
	}
	return s.addAudit(ctx, conn, a, before, after, 1)
}

func shown(show func(string) string, value string) string {
	if value == "" {
		return ""
	}
	return show(value)
}

// auditMoved adds the row of an operation that has moved tasks. was has them before, if moved has only ids.
func (s *Store) auditMoved(ctx context.Context, conn dialect.Conn, a *Audit, op Operation, moved []dialect.Row,
	was map[uuid.UUID]dialect.Row) error {
	if a == nil || a.TaskID == uuid.Nil || len(moved) != 1 {
		return s.addAudit(ctx, conn, a, "", "", len(moved))
	}
	before := moved[0]
	if was != nil {
		before = was[before.ID]
	}
	a.Queue = before.Queue
	after := ""
	if op.Transition.To != state.None {
		after = stateJSON(op.Transition.To)
	}
	return s.addAudit(ctx, conn, a, stateJSON(before.State), after, 1)
}

func stateJSON(s state.State) string { return `{"state":"` + s.String() + `"}` }

// auditLimits adds the row of a change of limits.
func (s *Store) auditLimits(ctx context.Context, conn dialect.Conn, before, after Limits) error {
	text := func(l Limits) string {
		if l == (Limits{}) {
			return ""
		}
		b, _ := json.Marshal(l.Fields()) // it has only numbers and texts
		return string(b)
	}
	return s.addAudit(ctx, conn, auditOf(ctx), text(before), text(after), 1)
}

// CleanAudit removes the entries of an age of at least age, in short transactions. On an error, done counts the
// removals so far.
func (s *Store) CleanAudit(ctx context.Context, age time.Duration) (done int, err error) {
	ctx = sqlrun.Slow(ctx)
	now, err := s.ReadNow(ctx) // once, so that its own entry stays
	if err != nil {
		return 0, err
	}
	args := dialect.Args{"until": now - age.Microseconds(), "limit": cleanBatch}
	err = s.auditedBatches(ctx, &done, func(ctx context.Context, conn dialect.Conn) (int, error) {
		rows, err := s.sql.Query(ctx, conn, s.sql.Texts.OldAudit, args)
		if err != nil {
			return 0, err
		}
		return len(rows), s.execIDs(ctx, conn, s.sql.Texts.DropAudit, idsOf(rows))
	})
	return done, err
}

// AuditFilter selects entries of the audit. The zero value selects all; each field narrows it.
type AuditFilter struct {
	Queue, Action, By string
	TaskID            uuid.UUID
	Since, Until      time.Time
	Before, After     uuid.UUID // by id
	OldestFirst       bool
	Limit             int
}

// From returns the filter of the entries that follow an id in the order of the list.
func (f AuditFilter) From(id uuid.UUID) AuditFilter {
	if f.OldestFirst {
		f.After = id
	} else {
		f.Before = id
	}
	return f
}

// AuditPage is a part of the audit; see Page.
type AuditPage struct {
	Rows          []sqlrun.AuditRow
	More, Stopped bool
	Next          uuid.UUID
}

// auditClocks is how far the clock of a program that changes something may be from the database's: an id has the time
// by the one, and an entry by the other.
const auditClocks = 24 * time.Hour

// ListAudit reads a page of entries, the newest first, at a bounded cost: only an index of ids and one of tasks lead to
// entries, so it compares the rest of the filter with about pageRows entries.
func (s *Store) ListAudit(ctx context.Context, f AuditFilter) (p AuditPage, err error) {
	limit := f.Limit
	next := AuditFilter{TaskID: f.TaskID, After: f.After, Before: f.Before, OldestFirst: f.OldestFirst}
	if first := firstID(f.Since.Add(-auditClocks)); !f.Since.IsZero() && compareIDs(first, f.After) > 0 {
		next.After = first
	}
	last := firstID(f.Until.Add(auditClocks))
	if !f.Until.IsZero() && (f.Before == uuid.Nil || compareIDs(last, f.Before) < 0) {
		next.Before = last
	}
	for _, n := range []int{max(pageFirst, limit+1), pageRows} {
		next.Limit = n
		rows, err := s.auditRange(ctx, next)
		if err != nil {
			return p, err
		}
		for _, r := range rows {
			if !f.matches(&r) {
				continue
			}
			if len(p.Rows) == limit {
				p.More, p.Stopped, p.Next = true, false, p.Rows[limit-1].ID
				return p, nil
			}
			p.Rows = append(p.Rows, r)
		}
		if p.More = len(rows) == n; !p.More {
			break
		}
		p.Next = rows[n-1].ID
		next = next.From(p.Next)
	}
	if p.Stopped = p.More && len(p.Rows) < limit; !p.More {
		p.Next = uuid.Nil
	}
	return p, nil
}

// auditRange reads the next f.Limit entries of one task or of all.
func (s *Store) auditRange(ctx context.Context, f AuditFilter) ([]sqlrun.AuditRow, error) {
	conditions, args := []string{"1 = 1"}, dialect.Args{"limit": f.Limit}
	compare := func(condition, name string, id uuid.UUID) {
		if id != uuid.Nil {
			conditions = append(conditions, condition)
			args[name] = id
		}
	}
	compare("a.task = :task", "task", f.TaskID)
	compare("a.id > :after", "after", f.After)
	compare("a.id < :before", "before", f.Before)
	text := sqlrun.ListText(s.sql.Texts.ListAudit, strings.Join(conditions, " AND "), !f.OldestFirst)
	return readRows[sqlrun.AuditRow](sqlrun.Slow(ctx), s, text, args)
}

// matches compares an entry with the texts and times of a filter.
func (f AuditFilter) matches(r *sqlrun.AuditRow) bool {
	return (f.Queue == "" || r.Queue == f.Queue) && (f.Action == "" || r.Action == f.Action) &&
		(f.By == "" || r.Who == f.By) && (f.Since.IsZero() || r.Happened >= f.Since.UnixMicro()) &&
		(f.Until.IsZero() || r.Happened < f.Until.UnixMicro())
}
