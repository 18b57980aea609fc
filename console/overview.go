package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/schedule"
)

// databasesPage lists the databases, or leads to the only one.
func (c *Console) databasesPage(v *visit) error {
	type row struct {
		Name, Product, Target, Strategy string
	}
	var rows []row
	for _, name := range c.names {
		if v.user.MaySome(auth.Read, name) {
			info := c.databases[name].client.Info()
			rows = append(rows, row{
				name, info.Server.Product + " " + info.Server.Version, info.Target.String(), string(info.Strategy),
			})
		}
	}
	if len(rows) == 1 {
		http.Redirect(v.w, v.r, c.cfg.Prefix+"/db/"+rows[0].Name+"/", http.StatusSeeOther)
		return nil
	}
	v.show(http.StatusOK, "databases", "Databases", rows)
	return nil
}

// overview is the state of a database: the counts, and the lists.
type overview struct {
	Counted   time.Time
	Kept      admin.Kept
	Queues    []queueRow
	Workers   []admin.WorkerInfo
	Schedules []schedule.Info
}

// Old reports whether the page must show the age of the counts: a new count takes some time, and began with the
// request.
func (o overview) Old() bool { return time.Since(o.Counted) > countOld }

// KeptSize returns a number of Kept, which counts up to 10,000.
func (o overview) KeptSize(n int64) string {
	switch {
	case n < 0:
		return "unknown"
	case n >= 10_000:
		return number(n) + "+"
	}
	return number(n)
}

// queueRow is a queue of the overview.
type queueRow struct {
	Queue    string
	Stats    admin.QueueStats
	Info     admin.QueueInfo
	Alive    int // workers
	Running  int // tasks that they run
	atLeast  map[dbq.State]bool
	hasStats bool
	Hour     hour
}

// Count returns the number of tasks in a state, such as "1,234", or "10,000+" if counting stopped there.
func (q queueRow) Count(s dbq.State) string {
	text := number(q.Stats.Count[s])
	if q.atLeast[s] {
		text += "+"
	}
	return text
}

// States returns the states in the order of the table's columns.
func (q queueRow) States() []dbq.State { return states }

var states = []dbq.State{
	dbq.StateCreated, dbq.StateProcessing, dbq.StateCompleted, dbq.StateError, dbq.StatePoison,
}

// oldestFine is how long a due task may wait before the overview shows trouble.
const oldestFine = 5 * time.Minute

// overviewOf combines the counts and the lists.
func overviewOf(c counted, l listed) overview {
	out := overview{Counted: c.At, Kept: c.Kept, Workers: l.Workers, Schedules: l.Schedules}
	rows := map[string]*queueRow{}
	row := func(queue string) *queueRow {
		if rows[queue] == nil {
			rows[queue] = &queueRow{Queue: queue, atLeast: map[dbq.State]bool{}}
		}
		return rows[queue]
	}
	for _, s := range c.Stats {
		r := row(s.Queue)
		r.Stats, r.hasStats = s, true
		for _, state := range s.AtLeast {
			r.atLeast[state] = true
		}
	}
	for _, i := range l.Queues {
		row(i.Queue).Info = i
	}
	for _, w := range l.Workers {
		if !w.Dead {
			r := row(w.Queue)
			r.Alive, r.Running = r.Alive+1, r.Running+w.Holding
		}
	}
	for _, r := range rows {
		r.Hour = c.Hours[r.Queue]
		out.Queues = append(out.Queues, *r)
	}
	slices.SortFunc(out.Queues, func(x, y queueRow) int { return cmp.Compare(x.Queue, y.Queue) })
	return out
}

// Prepare reads the overview of each database, so that the first visitor after a start does not wait for it: in a large
// table that can take some seconds. It returns when all are read, after at most Config.Timeout. A page shows the
// error of a database that cannot be read.
func (c *Console) Prepare(ctx context.Context) {
	var all sync.WaitGroup
	for _, d := range c.databases {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
			defer cancel()
			d.listed.prepare(ctx, d.list)
			d.counted.prepare(ctx, d.count)
		})
	}
	all.Wait()
}

// changed makes the next visitors read everything again that a change of this visitor may have affected.
func (d *database) changed() {
	d.counted.expire()
	d.listed.expire()
	d.workflows.expireAll()
}

// finding is something that is wrong, and the page that helps.
type finding struct {
	What string
	Do   string
	Link string
}

// findings returns the problems in the part of the database that a user may see.
func (o overview) findings(v *visit) (out []finding) {
	add := func(what, do, link string) { out = append(out, finding{what, do, link}) }
	for _, q := range o.Queues {
		if !v.may(auth.Read, q.Queue) {
			continue
		}
		name, list := q.Queue, func(query ...string) string {
			return v.path("tasks", append([]string{"queue", q.Queue}, query...)...)
		}
		switch {
		case q.Info.Paused:
			add("Queue "+name+" is paused", "Resume it when the cause is gone.", v.path("queue", "queue", name))
		case q.Stats.Due > 0 && q.Alive == 0:
			add("Queue "+name+" has due tasks and no worker", "Start a worker for it.", list("state", "CREATED"))
		case q.Stats.OldestDue > oldestFine:
			add("A task of queue "+name+" has been due for "+age(q.Stats.OldestDue),
				"Add workers or concurrency, or look for slow tasks and limits.", v.path("queue", "queue", name))
		}
		if n := q.Stats.Count[dbq.StatePoison]; n > 0 {
			add("Queue "+name+" has "+tasks(n)+" in POISON", "Read the errors, then reenqueue or purge.",
				list("state", "POISON", "mark", "not-cancelled"))
		}
		if q.Stats.Parked > 0 {
			add("Queue "+name+" has "+tasks(q.Stats.Parked)+" parked", "Parked tasks wait until someone acts.",
				list("state", "ERROR", "mark", "parked"))
		}
	}
	kinds := admin.NoHandlers(o.Workers)
	for _, queue := range slices.Sorted(maps.Keys(kinds)) {
		if v.may(auth.Read, queue) {
			add("Workers of queue "+queue+" have no handler for "+strings.Join(kinds[queue], ", "),
				"Deploy a worker that has it; until then the tasks come back at intervals.", v.path("workers"))
		}
	}
	dead := 0
	for _, w := range o.Workers {
		if w.Dead && v.may(auth.Read, w.Queue) {
			dead++
		}
	}
	if dead > 0 {
		what := " workers have stopped without notice"
		if dead == 1 {
			what = " worker has stopped without notice"
		}
		add(number(dead)+what, "They were killed, or cannot reach the database. Their "+
			"tasks are taken over when the leases expire.", v.path("workers"))
	}
	for _, s := range o.Schedules {
		if s.Problem != "" && v.may(auth.Read, s.Queue) {
			add("Schedule "+s.Name+" has skipped its last time", s.Problem, v.path("schedule", "name", s.Name))
		}
	}
	return out
}

// trouble counts the findings for a user.
func (o overview) trouble(v *visit) int { return len(o.findings(v)) }

// keep returns the elements of a slice that may be kept, in a new slice.
func keep[T any](all []T, may func(T) bool) (out []T) {
	for _, x := range all {
		if may(x) {
			out = append(out, x)
		}
	}
	return out
}

// overview returns the overview that the user may see.
func (v *visit) overview() (overview, error) {
	l, err := v.listed()
	if err != nil {
		return overview{}, err
	}
	c, err := v.db.counted.get(v.ctx(), v.db.count)
	return overviewOf(c.seenBy(v), l), err
}

// lastOverview is overview as it was last read, without reading.
func (v *visit) lastOverview() overview {
	return overviewOf(v.db.counted.last().seenBy(v), v.db.listed.last().seenBy(v))
}

func (c *Console) overviewPage(v *visit) error {
	o, err := v.overview()
	if err != nil {
		return err
	}
	var all hour
	for _, q := range o.Queues {
		all = all.add(q.Hour)
	}
	v.show(http.StatusOK, "overview", v.db.name, struct {
		overview
		Findings []finding
		States   []dbq.State
		Info     dbq.Info
		Hour     hour // of all queues that the user may see
	}{o, o.findings(v), states, v.db.client.Info(), all})
	return nil
}
