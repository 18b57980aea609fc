package dbq

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

const (
	// countMost is how far Stats counts by default.
	countMost = 10_000
	// statsQueues bounds the queues that Stats counts, each with a statement of its own.
	statsQueues = 10_000
)

// QueueStats counts the tasks of one queue.
type QueueStats struct {
	Queue string          `json:"queue"`
	Count map[State]int64 `json:"count"` // of each state; a state without tasks is 0
	// AtLeast are the states of which there may be more tasks than Count says. Where CREATED is one of them there may be more due tasks than
	// Due, and with ERROR more parked ones than Parked. It is empty with CountAll.
	AtLeast []State `json:"at_least,omitempty"`
	// Due is how many tasks are due and wait for a worker, Parked how many are in ERROR until an operator acts.
	Due    int64 `json:"due"`
	Parked int64 `json:"parked"`
	// OldestDue is how long the oldest due task has been due: the queue's lag. It is exact.
	OldestDue time.Duration `json:"oldest_due"`
}

// StatsOption changes how Stats counts.
type StatsOption func(*int) error

// CountUpTo counts at most n tasks of each queue and state: 1 to a million. The default is 10,000.
func CountUpTo(n int) StatsOption {
	return func(most *int) error {
		*most = n
		return checkCount(n, 1_000_000)
	}
}

// CountAll counts every task, which reads the whole table: seconds for ten million tasks.
func CountAll() StatsOption {
	return func(most *int) error { *most = 0; return nil }
}

// Stats counts the tasks of each queue by state, by the queues' names. It counts up to 10,000 tasks of each queue and state, so that its
// cost does not grow with the table; QueueStats.AtLeast names the states that have, or may have, more. COMPLETED tasks are in no
// index on PostgreSQL, SQLite and Oracle (on Oracle those in POISON and parked ones neither): there they are counted among the newest 10,000
// tasks of all queues, and a queue with none but these that is not among them is left out. It counts up to 10,000 queues.
func (c *Client) Stats(ctx context.Context, opts ...StatsOption) ([]QueueStats, error) {
	most := countMost
	var err error
	for _, opt := range opts {
		if err == nil {
			err = opt(&most)
		}
	}
	counts := counts{}
	if err == nil {
		err = c.read(ctx, func(ctx context.Context, conn dialect.Conn) error {
			counts = map[string]*QueueStats{} // it may be asked once more
			if most == 0 {
				_, err := c.count(ctx, conn, counts, c.s.Statements.Count, nil)
				return err
			}
			return c.countUpTo(ctx, conn, counts, most)
		})
	}
	if err != nil {
		return nil, c.wrap("stats", "", uuid.Nil, err)
	}
	return counts.sorted(), nil
}

// counts are the statistics by queue.
type counts map[string]*QueueStats

func (cs counts) sorted() []QueueStats {
	var out []QueueStats
	for _, q := range cs {
		slices.Sort(q.AtLeast)
		out = append(out, *q)
	}
	slices.SortFunc(out, func(a, b QueueStats) int { return strings.Compare(a.Queue, b.Queue) })
	return out
}

// at is a queue's statistics.
func (cs counts) at(queue string) *QueueStats {
	q := cs[queue]
	if q == nil {
		q = &QueueStats{Queue: queue, Count: map[State]int64{}}
		for _, s := range state.All() {
			q.Count[s] = 0
		}
		cs[queue] = q
	}
	return q
}

// countUpTo finds the queues one by one, and counts each.
func (c *Client) countUpTo(ctx context.Context, conn dialect.Conn, cs counts, most int) error {
	st := c.s.Statements
	var unsure []State // of every queue
	if st.CountNewest != "" {
		cut, err := c.count(ctx, conn, cs, st.CountNewest, dialect.Args{"limit": most})
		if err != nil {
			return err
		}
		if cut {
			unsure = st.Newest
		}
	}
	for after := ""; len(cs) < statsQueues; {
		rows, err := dialect.QueryAs[dialect.CountRow](ctx, c.s, conn, st.NextQueue, dialect.Args{"queue": after})
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].Queue <= after {
			break
		}
		after = rows[0].Queue
		cs.at(after)
	}
	for name, q := range cs {
		if _, err := c.count(ctx, conn, cs, st.CountUpTo, dialect.Args{"queue": name, "limit": most}); err != nil {
			return err
		}
		q.atLeast(unsure...)
	}
	return nil
}

// count adds what a statement of counts returns, and reports whether it stopped at its limit.
func (c *Client) count(ctx context.Context, conn dialect.Conn, cs counts, text string, args dialect.Args) (cut bool, err error) {
	rows, err := dialect.QueryAs[dialect.CountRow](ctx, c.s, conn, text, args)
	for _, r := range rows {
		if r.Queue == "" {
			r.Queue = args["queue"].(string)
		}
		q := cs.at(r.Queue)
		q.Count[r.State] += r.Tasks
		q.Due += r.Due
		if r.State == StateError {
			q.Parked += r.Parked
		}
		if r.Oldest != nil {
			q.OldestDue = max(q.OldestDue, time.Duration(*r.Oldest)*time.Microsecond)
		}
		if r.Cut > 0 {
			q.atLeast(r.State)
			cut = true
		}
	}
	return cut, err
}

func (q *QueueStats) atLeast(states ...State) {
	for _, s := range states {
		if !slices.Contains(q.AtLeast, s) {
			q.AtLeast = append(q.AtLeast, s)
		}
	}
}
