package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
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

	verdict bool // the page has a verdict, so the findings do not say why tasks wait
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
	Slots    int // tasks that they can run at once
	workers  []admin.WorkerInfo
	atLeast  map[dbq.State]bool
	hasStats bool
	Hour     hour
	failing  admin.Failing
}

// Count returns the number of tasks in a state, such as "1,234", or "10,000+" if counting stopped there.
func (q queueRow) Count(s dbq.State) string { return q.least(q.Stats.Count[s], s) }

var states = []dbq.State{
	dbq.StateCreated, dbq.StateProcessing, dbq.StateCompleted, dbq.StateError, dbq.StatePoison,
}

// oldestFine is how long a due task may wait before the overview shows trouble, and limitFine how long one may wait for
// the rate of its queue: nothing else shows why a queue grows although its workers are fine.
const (
	oldestFine = 5 * time.Minute
	limitFine  = time.Minute
)

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
			r.Alive, r.Running, r.Slots = r.Alive+1, r.Running+w.Holding, r.Slots+w.Concurrency
		}
		if r := rows[w.Queue]; r != nil { // a queue that has only dead workers gets no row
			r.workers = append(r.workers, w)
		}
	}
	for _, r := range rows {
		lost := 0
		for _, w := range r.workers {
			if w.Dead {
				lost += w.Holding
			}
		}
		// The count is newer than the reports of the workers.
		r.Running = max(r.Running, min(int(r.Stats.Count[dbq.StateProcessing])-lost, r.Slots))
		r.Hour, r.failing = c.Hours[r.Queue], c.Failing[r.Queue]
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
	d.poisoned.expireAll()
	d.verdicts.expireAll()
}

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

// overviewView is the content of the page of an overview.
type overviewView struct {
	overview
	Findings []finding
	Info     dbq.Info
	Hour     hour   // of all queues that the user may see
	Filter   string // the names of the listed queues contain it
	All      int    // queues that match it
	Self     string // the path of this part of the list
	Earlier  string // the path of the part before it
	Later    string
}

// queuesOnPage is how many queues a part of the overview's list has.
const queuesOnPage = 100

func (c *Console) overviewPage(v *visit) error {
	o, err := v.overview()
	if err != nil {
		return err
	}
	page := overviewView{overview: o, Findings: o.findings(v), Info: v.db.client.Info(), Filter: v.form("name")}
	for _, q := range o.Queues {
		page.Hour = page.Hour.add(q.Hour)
	}
	page.Queues = keep(o.Queues, func(q queueRow) bool { return strings.Contains(q.Queue, page.Filter) })
	slices.SortStableFunc(page.Queues, func(x, y queueRow) int { // by due tasks, and name, if they have the same trouble
		_, a := x.trouble()
		_, b := y.trouble()
		return cmp.Or(cmp.Compare(b, a), cmp.Compare(y.Stats.Due, x.Stats.Due))
	})
	page.All = len(page.Queues)
	from, err := whole("from", v.form("from"))
	if err != nil {
		return err
	}
	part := func(from int) string {
		text := ""
		if from > 0 {
			text = strconv.Itoa(from)
		}
		return v.path("", "name", page.Filter, "from", text)
	}
	from = min(from, max(page.All-1, 0)) / queuesOnPage * queuesOnPage
	to := min(from+queuesOnPage, page.All)
	page.Queues, page.Self = page.Queues[from:to], part(from)
	if from > 0 {
		page.Earlier = part(from - queuesOnPage)
	}
	if to < page.All {
		page.Later = part(to)
	}
	v.show(http.StatusOK, "overview", "Overview", page)
	return nil
}

// Headline returns how much needs attention.
func (o overviewView) Headline() string {
	problems := 0
	for _, f := range o.Findings {
		if f.Problem {
			problems++
		}
	}
	count := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return number(n) + " " + many
	}
	notices := len(o.Findings) - problems
	switch {
	case problems == 0 && notices == 0:
		return "Nothing needs attention"
	case problems == 0:
		return count(notices, "notice", "notices")
	case notices == 0:
		return count(problems, "problem", "problems")
	}
	return count(problems, "problem", "problems") + " and " + count(notices, "notice", "notices")
}

// Problems reports whether one of the findings is a problem.
func (o overviewView) Problems() bool {
	return slices.ContainsFunc(o.Findings, func(f finding) bool { return f.Problem })
}
