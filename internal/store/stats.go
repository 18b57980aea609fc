package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// maxStatsQueues bounds the queues that Stats counts.
const maxStatsQueues = 10_000

// QueueStats counts the tasks of one queue.
type QueueStats struct {
	Queue       string
	Count       map[state.State]int64 // of every state
	AtLeast     []state.State         // the states that may have more tasks than Count says
	Due, Parked int64
	Cancelled   int64 // in POISON, and not in its Count
	OldestDue   time.Duration
}

// Stats counts the tasks of each queue by state, up to limit of each queue and state; 0 counts all. The queues are
// sorted by name. If only is not empty, it returns the statistics of that queue alone.
func (s *Store) Stats(ctx context.Context, only string, limit int) ([]QueueStats, error) {
	c, err := s.counting(sqlrun.Slow(ctx), func(ctx context.Context, c *counter) error {
		if limit == 0 {
			_, err := c.count(ctx, s.sql.Texts.Count, nil)
			return err
		}
		if only != "" {
			return c.countQueues(ctx, limit, only)
		}
		if err := c.findQueues(ctx); err != nil {
			return err
		}
		return c.countQueues(ctx, limit, slices.Sorted(maps.Keys(c.queues))...)
	})
	if err != nil {
		return nil, err
	}
	if only != "" { // the statements that count all queues may have found others
		c.queues = map[string]*QueueStats{only: c.queue(only)}
	}
	return c.sorted(), nil
}

// CountQueues counts the queues that Stats would count, without their tasks.
func (s *Store) CountQueues(ctx context.Context) (int, error) {
	c, err := s.counting(sqlrun.Slow(ctx), func(ctx context.Context, c *counter) error { return c.findQueues(ctx) })
	return len(c.queues), err
}

// CountKept counts the tasks of the archive and the entries of the audit, up to limit of each. A number is -1 if the
// database user may not read the table.
func (s *Store) CountKept(ctx context.Context, limit int) (archived, audit int64, err error) {
	count := func(text string) (int64, error) {
		rows, err := readRows[sqlrun.TasksRow](ctx, s, text, dialect.Args{"limit": limit})
		if s.sql.Class(err) == dialect.Denied {
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
		return rows[0].Tasks, nil
	}
	if archived, err = count(s.sql.Texts.CountArchive); err == nil {
		audit, err = count(s.sql.Texts.CountAudit)
	}
	return archived, audit, err
}

// counter collects the statistics by queue.
type counter struct {
	s      *Store
	conn   dialect.Conn
	queues map[string]*QueueStats
}

// counting runs queries that count, with a counter of which only the last try counts.
func (s *Store) counting(ctx context.Context, count func(context.Context, *counter) error) (counter, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) (counter, error) {
		c := counter{s: s, conn: conn, queues: map[string]*QueueStats{}}
		err := count(ctx, &c)
		return c, err
	})
}

func (c *counter) sorted() []QueueStats {
	var out []QueueStats
	for _, q := range c.queues {
		slices.Sort(q.AtLeast)
		out = append(out, *q)
	}
	slices.SortFunc(out, func(a, b QueueStats) int { return strings.Compare(a.Queue, b.Queue) })
	return out
}

// queue returns a queue's statistics, which begin at 0.
func (c *counter) queue(name string) *QueueStats {
	q := c.queues[name]
	if q == nil {
		q = &QueueStats{Queue: name, Count: map[state.State]int64{}}
		for _, s := range state.All() {
			q.Count[s] = 0
		}
		c.queues[name] = q
	}
	return q
}

// How many queues one statement counts, and for how many names it finds the next queue. A longer statement takes an
// engine longer to plan, and SQLite allows 500 parts.
const countAtOnce, nextAtOnce = 50, 200

// StatsStatements returns about how many statements Stats with a limit takes for a number of queues whose names this
// client has found before.
func StatsStatements(queues int) int { return 2 + queues/nextAtOnce + max(queues-1, 0)/countAtOnce }

// findQueues finds the queues. It queries the next queue after each one that this client found before, by few
// statements, and then the next one after each new queue.
func (c *counter) findQueues(ctx context.Context) error {
	known, next := []string{""}, map[string]string{}
	if before := c.s.statsQueues.Load(); before != nil {
		known = append(known, *before...)
	}
	ask := func(after ...string) error {
		for _, queue := range after {
			next[queue] = "" // unless a row follows, it is the last one
		}
		return queryUnion(ctx, c.s, c.conn, c.s.sql.Texts.NextQueue, "queue", after, nextAtOnce, nil,
			func(after string, r countPart) {
				if r.Queue > after && (next[after] == "" || r.Queue < next[after]) {
					next[after] = r.Queue
				}
			})
	}
	if err := ask(known...); err != nil {
		return err
	}
	var found []string
	for queue := next[""]; queue != "" && len(found) < maxStatsQueues; queue = next[queue] {
		if _, asked := next[queue]; !asked {
			if err := ask(queue); err != nil {
				return err
			}
		}
		found = append(found, queue)
		c.queue(queue)
	}
	c.s.statsQueues.Store(&found)
	return nil
}

// countQueues counts some queues. For states without an index, it counts the tasks of all queues together, and so may
// find others.
func (c *counter) countQueues(ctx context.Context, limit int, queues ...string) error {
	st := c.s.sql.Texts
	var unsure []state.State // of every queue
	if st.CountNewest != "" {
		cut, err := c.count(ctx, st.CountNewest, dialect.Args{"limit": limit})
		if err != nil {
			return err
		}
		if cut {
			for in, index := range st.Indexes {
				if index.Newest {
					unsure = append(unsure, in)
				}
			}
		}
	}
	err := queryUnion(ctx, c.s, c.conn, st.CountUpTo, "queue", queues, countAtOnce, dialect.Args{"limit": limit},
		func(queue string, r countPart) {
			r.Queue = queue
			c.add(r.CountRow)
		})
	if err != nil {
		return err
	}
	for _, q := range c.queues {
		q.atLeast(unsure...)
	}
	return nil
}

// count adds the counts that a statement returns, and reports whether it stopped at its limit.
func (c *counter) count(ctx context.Context, text string, args dialect.Args) (cut bool, err error) {
	rows, err := sqlrun.QueryAs[sqlrun.CountRow](ctx, c.s.sql, c.conn, text, args)
	for _, r := range rows {
		c.add(r)
		cut = cut || r.Cut > 0
	}
	return cut, err
}

// add adds a row.
func (c *counter) add(r sqlrun.CountRow) {
	q := c.queue(r.Queue)
	q.Count[r.State] += r.Tasks
	q.Due += r.Due
	if r.State == state.Poison {
		q.Count[r.State] -= r.Cancelled
		q.Cancelled += r.Cancelled
	}
	if r.State == state.Error {
		q.Parked += r.Parked
	}
	if r.Oldest != nil {
		q.OldestDue = max(q.OldestDue, time.Duration(*r.Oldest)*time.Microsecond)
	}
	if r.Cut > 0 {
		q.atLeast(r.State)
	}
}

func (q *QueueStats) atLeast(states ...state.State) {
	for _, s := range states {
		if !slices.Contains(q.AtLeast, s) {
			q.AtLeast = append(q.AtLeast, s)
		}
	}
}
