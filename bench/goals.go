package main

import (
	"fmt"
	"strings"
)

// A goal is a ratio to reach, or an absolute time in ms.
type goal struct {
	text   string
	got    float64 // 0: not measured
	want   float64
	atMost bool
	unit   string
}

func (g goal) verdict() string {
	switch {
	case g.got == 0:
		return "not measured"
	case g.atMost == (g.got <= g.want) || g.got == g.want:
		return "reached"
	}
	return "not reached"
}

func (g goal) gotText() string {
	if g.got == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f%s", g.got, g.unit)
}

func (g goal) wantText() string {
	if g.atMost {
		return fmt.Sprintf("at most %g%s", g.want, g.unit)
	}
	return fmt.Sprintf("at least %g%s", g.want, g.unit)
}

const (
	worker1                = "dbq skip-locked, worker"
	loop1                  = "dbq skip-locked, loop"
	largeLoop, largeWorker = "dbq, loop, 2,000 at a time", "dbq, worker, 2,000 at a time"
	solid                  = "Solid Queue's technique"
	postgresDB             = "PostgreSQL"
	mysqlDB                = "MySQL"
	mariaDB                = "MariaDB"
	noHistory              = "dbq, worker, no history"
	notified               = "dbq by notification"
)

// goals returns dbq's own goals with the measured figures.
func (r *report) goals() []goal {
	find := func(group string, f figure, contender string) result {
		for _, p := range r.Parts {
			for _, row := range p.Results {
				if row.Group == group && row.Figure == f && row.Contender == contender {
					return row
				}
			}
		}
		return result{}
	}
	bestIf := func(group string, f figure, fits func(contender string) bool) float64 {
		var rows []result
		for _, p := range r.Parts {
			for _, row := range p.Results {
				if row.Group == group && row.Figure == f && fits(row.Contender) {
					rows = append(rows, row)
				}
			}
		}
		return bestOf(rows, peer)
	}
	best := func(group string, f figure) float64 { return bestIf(group, f, func(string) bool { return true }) }
	over := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	var all []goal
	least := func(text string, got, want float64) { all = append(all, goal{text: text, got: got, want: want}) }
	most := func(text string, got, want float64, unit string) {
		all = append(all, goal{text: text, got: got, want: want, atMost: true, unit: unit})
	}
	overBest := func(group string, f figure, contender string) float64 {
		return over(find(group, f, contender).Median, best(group, f))
	}
	kept := find(postgresDB, drain, worker1)
	least("PostgreSQL: drain through the worker (its history recorded) to the fastest peer's, tasks kept", kept.PerPeer, 2)
	least("… without recording attempts", find(postgresDB, drain, noHistory).PerPeer, 2)
	least("PostgreSQL: drain through the worker to the fastest peer's, completed and deleted",
		find(postgresDB, drainDelete, "dbq, worker").PerPeer, 2.5)
	least("… without recording attempts", find(postgresDB, drainDelete, noHistory).PerPeer, 2.5)
	least("PostgreSQL: drain through the worker to the floor", kept.PerFloor, 0.7)
	least("… without recording attempts", find(postgresDB, drain, noHistory).PerFloor, 0.7)
	least("… by the bare loop", find(postgresDB, drain, loop1).PerFloor, 0.7)
	least("PostgreSQL: bulk enqueue to the fastest peer's", find(postgresDB, bulk, loop1).PerPeer, 1.5)
	for _, n := range producerCounts {
		least(plural("PostgreSQL: single enqueue by %d producer%s to the fastest peer's", n),
			find(postgresDB, singleFigure(n), loop1).PerPeer, 1.2)
	}
	most("PostgreSQL: pick-up p50, idle queue, by notification", find(postgresDB, pickupP50, notified).Median, 2, " ms")
	most("PostgreSQL: pick-up p99, idle queue, by notification", find(postgresDB, pickupP99, notified).Median, 20, " ms")
	for _, q := range []struct {
		name string
		f    figure
	}{
		{"pick-up p50", loadedP50},
		{"pick-up p95", loadedP95},
		{"pick-up p99", loadedP99},
		{"enqueue and pick-up p50", calledP50},
		{"enqueue and pick-up p95", calledP95},
		{"enqueue and pick-up p99", calledP99},
	} {
		most("PostgreSQL: "+q.name+" at half load to the fastest peer's", overBest(postgresDB, q.f, notified), 1, "")
	}
	for _, s := range []struct {
		synchronous string
		want        float64
	}{{"normal", 4}, {"full", 10}} {
		group := "SQLite, synchronous=" + s.synchronous
		least(group+": drain by the loop, tasks kept, to the fastest peer that keeps them",
			find(group, drain, "dbq, loop").PerPeer, s.want)
		least(group+": drain by the loop, completed and deleted, to the fastest peer that deletes them",
			find(group, drainDelete, "dbq, loop").PerPeer, s.want)
	}
	for _, group := range []string{mysqlDB, mariaDB} {
		loop := find(group, drain, loop1).Median
		least(group+": drain by the loop to that on PostgreSQL", over(loop, find(postgresDB, drain, loop1).Median), 0.6)
		least(group+": drain by the loop to Solid Queue's technique", over(loop, find(group, drain, solid).Median), 2)
	}
	for _, p := range r.Parts {
		for _, row := range p.Results {
			switch {
			case row.PerBase > 0 && row.Figure == grownDrain:
				least(row.Group+": "+row.Contender+" to an empty table", row.PerBase, 0.85)
			case row.PerBase > 0 && row.Figure == heldDrain:
				most(row.Group+": none held open to "+row.Contender, 1/row.PerBase, 1.5, "")
			}
		}
	}
	for _, group := range []string{postgresDB, mysqlDB, mariaDB} {
		one, four := find(group, processFigure(1), worker1).Median, find(group, processFigure(4), worker1).Median
		least(group+": 4 worker processes to 1", over(four, one), 1)
	}
	// Contenders that delete completed tasks are not compared with those that keep them.
	deletes := func(contender string) bool { return strings.HasSuffix(contender, deleting) }
	keeps := func(contender string) bool { return !deletes(contender) }
	for _, group := range []string{postgresDB, mysqlDB, mariaDB} {
		most(group+": statements for a task, by the worker, to the best peer's",
			overBest(group, statements, worker1), 1, "")
		most("… by the loop", overBest(group, statements, loop1), 1, "")
		if group == postgresDB {
			most("… by the worker, 2,000 at a time like River", overBest(group, statements, largeWorker), 1, "")
			most("… by the loop, 2,000 at a time", overBest(group, statements, largeLoop), 1, "")
		}
		for _, c := range []struct {
			text, contender string
			fits            func(string) bool
		}{
			{"by the worker (its history recorded), to the best peer that keeps tasks", worker1, keeps},
			{"by the loop, to the same", loop1, keeps},
			{"by the worker (no history), to the best peer that deletes them", noHistory + deleting, deletes},
			{"by the loop, to the same", "dbq, loop" + deleting, deletes},
		} {
			if base := bestIf(group, written, c.fits); base > 0 || c.contender == worker1 {
				most(group+": bytes of WAL or redo log for a task, "+c.text,
					over(find(group, written, c.contender).Median, base), 1, "")
			}
		}
	}
	return all
}
