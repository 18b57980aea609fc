package store

import (
	"context"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// AuditFilter selects entries of the audit. The zero value selects all; each field narrows it.
type AuditFilter struct {
	Queue, Action, By string
	Task              uuid.UUID
	Since, Until      time.Time
	Before, After     uuid.UUID // by id
	OldestFirst       bool
	Limit             int
}

// ListAudit reads up to f.Limit entries, the newest first.
func (s *Store) ListAudit(ctx context.Context, f AuditFilter) (rows []sqlrun.AuditRow, err error) {
	conditions, args := []string{"1 = 1"}, dialect.Args{"limit": f.Limit}
	compare := func(set bool, condition, name string, value any) {
		if set {
			conditions = append(conditions, condition)
			args[name] = value
		}
	}
	compare(f.Queue != "", "a.queue = :queue", "queue", f.Queue)
	compare(f.Action != "", "a.action = :action", "action", f.Action)
	compare(f.By != "", "a.who = :who", "who", f.By)
	compare(f.Task != uuid.Nil, "a.task = :task", "task", f.Task)
	compare(!f.Since.IsZero(), "a.happened >= :since", "since", f.Since.UnixMicro())
	compare(!f.Until.IsZero(), "a.happened < :until", "until", f.Until.UnixMicro())
	compare(f.After != uuid.Nil, "a.id > :after", "after", f.After)
	compare(f.Before != uuid.Nil, "a.id < :before", "before", f.Before)
	text := sqlrun.ListText(s.sql.Texts.ListAudit, strings.Join(conditions, " AND "), !f.OldestFirst)
	err = s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = sqlrun.QueryAs[sqlrun.AuditRow](ctx, s.sql, conn, text, args)
		return err
	})
	return rows, err
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

// AuditPage is ListAudit at a bounded cost: only an index of ids and one of tasks lead to entries, so it compares the
// rest of the filter with about pageRows entries.
func (s *Store) AuditPage(ctx context.Context, f AuditFilter) (p AuditPage, err error) {
	limit := f.Limit
	next := AuditFilter{Task: f.Task, After: f.After, Before: f.Before, OldestFirst: f.OldestFirst}
	if first := firstID(f.Since.Add(-auditClocks)); !f.Since.IsZero() && compareIDs(first, f.After) > 0 {
		next.After = first
	}
	last := firstID(f.Until.Add(auditClocks))
	if !f.Until.IsZero() && (f.Before == uuid.Nil || compareIDs(last, f.Before) < 0) {
		next.Before = last
	}
	for _, n := range []int{max(pageFirst, limit+1), pageRows} {
		next.Limit = n
		rows, err := s.ListAudit(ctx, next)
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
		if p.Next = rows[n-1].ID; f.OldestFirst {
			next.After = p.Next
		} else {
			next.Before = p.Next
		}
	}
	p.Stopped = p.More && len(p.Rows) < limit
	return p, nil
}

// matches compares an entry with the texts and times of a filter.
func (f AuditFilter) matches(r *sqlrun.AuditRow) bool {
	return (f.Queue == "" || r.Queue == f.Queue) && (f.Action == "" || r.Action == f.Action) &&
		(f.By == "" || r.Who == f.By) && (f.Since.IsZero() || r.Happened >= f.Since.UnixMicro()) &&
		(f.Until.IsZero() || r.Happened < f.Until.UnixMicro())
}
