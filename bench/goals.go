package main

import (
	"fmt"
	"slices"
	"strings"
)

// A goal is a ratio to reach, or an absolute figure.
type goal struct {
	text, group string
	got, want   float64 // got is 0 if it was not measured
	atMost      bool
}

// What a contender can be compared with, besides another one.
const (
	nothing     = ""
	bestPeer    = "the best peer"
	bestKeeping = "the best peer that keeps tasks"
)

const (
	worker1      = "dbq skip-locked, worker"
	loop1        = "dbq skip-locked, loop"
	noHistory    = "dbq, worker, no history"
	notified     = "dbq by notification"
	solid        = "Solid Queue's technique"
	onFloor      = "floor"
	onEmpty      = "dbq, loop, an empty table"
	onGrown      = "dbq, loop, beside ended and future tasks"
	besideNone   = "dbq, loop, no transaction held open"
	besideHeld   = "dbq, loop, a transaction held open"
	postgresDB   = "PostgreSQL"
	mysqlDB      = "MySQL"
	mariaDB      = "MariaDB"
	sqliteFull   = "SQLite, synchronous=full"
	sqliteNormal = "SQLite, synchronous=normal"
)

// line is the goal as a line of the page.
func (g goal) line() string {
	got, bound, verdict := "–", "≥", "not reached"
	if g.atMost {
		bound = "≤"
	}
	if g.got > 0 {
		got = fmt.Sprintf("%.2f", g.got)
	}
	switch {
	case g.got == 0:
		verdict = "not measured"
	case g.atMost == (g.got <= g.want) || g.got == g.want:
		verdict = ""
	}
	return fmt.Sprintf("| %s: %s | %s | %s%g | %s |\n", g.group, g.text, got, bound, g.want, verdict)
}

// goals returns dbq's own goals with the measured figures.
func (r report) goals() (all []goal) {
	add := func(part, group, text string, f figure, of, to string, want float64, atMost bool) {
		g := goal{text: text, group: group, want: want, atMost: atMost, got: r.median(part, group, f, of)}
		switch to {
		case nothing:
		case bestPeer, bestKeeping:
			g.got = over(g.got, r.best(part, group, f, to == bestKeeping))
		default:
			g.got = over(g.got, r.median(part, group, f, to))
		}
		all = append(all, g)
	}
	for _, g := range []struct {
		text   string
		figure figure
		of, to string
		want   float64
	}{
		{"drain by the worker to the best peer's that keeps tasks", drain, worker1, bestKeeping, 2},
		{"the same without history", drain, noHistory, bestKeeping, 2},
		{"drain by the worker, deleting, to the best peer's", drain, "dbq, worker" + deleting, bestPeer, 2.5},
		{"the same without history", drain, noHistory + deleting, bestPeer, 2.5},
		{"drain by the worker to the floor", drain, worker1, onFloor, 0.7},
		{"the same without history", drain, noHistory, onFloor, 0.7},
		{"drain by the loop to the floor", drain, loop1, onFloor, 0.7},
		{"bulk enqueue to the best peer's", bulk, loop1, bestPeer, 1.5},
		{"single enqueue by 1 producer to the best peer's", single1, loop1, bestPeer, 1.2},
		{"single enqueue by 2 producers to the best peer's", single2, loop1, bestPeer, 1.2},
		{"single enqueue by 8 producers to the best peer's", single8, loop1, bestPeer, 1.2},
	} {
		add(partThroughput, postgresDB, g.text, g.figure, g.of, g.to, g.want, false)
	}
	add(partPickup, postgresDB, string(idleP50)+", by notification, ms", idleP50, notified, nothing, 2, true)
	add(partPickup, postgresDB, string(idleP99)+", by notification, ms", idleP99, notified, nothing, 20, true)
	for _, f := range []figure{loadedP50, loadedP95, loadedP99, calledP50, calledP95, calledP99} {
		add(partPickup, postgresDB, string(f)+", by notification, to the best peer's", f, notified, bestPeer, 1, true)
	}
	for _, group := range []string{sqliteNormal, sqliteFull} {
		want := map[string]float64{sqliteNormal: 4, sqliteFull: 10}[group]
		add(partThroughput, group, "drain by the loop to the best peer's that keeps tasks",
			drain, "dbq, loop", bestKeeping, want, false)
		add(partThroughput, group, "drain by the loop, deleting, to the best peer's",
			drain, "dbq, loop"+deleting, bestPeer, want, false)
	}
	for _, group := range []string{mysqlDB, mariaDB} {
		add(partThroughput, group, "drain by the loop to "+solid, drain, loop1, solid, 2, false)
		add(partThroughput, group, "drain by the loop to that on PostgreSQL", drain, loop1, nothing, 0.6, false)
		last := &all[len(all)-1]
		last.got = over(last.got, r.median(partThroughput, postgresDB, drain, loop1))
	}
	for _, group := range []string{postgresDB, mysqlDB, mariaDB, sqliteFull} {
		add(partGrowth, group, "drain beside ended and future tasks to that of an empty table",
			drain, onGrown, onEmpty, 0.85, false)
		if group != sqliteFull {
			add(partGrowth, group, "drain without a transaction held open to that beside one",
				drain, besideNone, besideHeld, 1.5, true)
		}
	}
	return all
}

func (r report) results(part, group string) []result {
	for _, p := range r.Parts {
		if p.Name == part {
			return slices.DeleteFunc(slices.Clone(p.Results), func(row result) bool { return row.Group != group })
		}
	}
	return nil
}

// median returns a contender's median of a figure, or 0.
func (r report) median(part, group string, f figure, contender string) float64 {
	for _, row := range r.results(part, group) {
		if row.Contender == contender {
			return row.Figures[f][0]
		}
	}
	return 0
}

// best returns the best peer's median of a figure, or 0. Contenders that delete tasks are compared with all peers.
func (r report) best(part, group string, f figure, keeping bool) (best float64) {
	for _, row := range r.results(part, group) {
		m := row.Figures[f][0]
		if row.Role != peer || m == 0 || keeping && strings.HasSuffix(row.Contender, deleting) {
			continue
		}
		if best == 0 || f.moreIsBetter() == (m > best) {
			best = m
		}
	}
	return best
}

func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
