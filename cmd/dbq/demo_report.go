package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// demoReport is what a demo found, and its --json.
type demoReport struct {
	Database   string  `json:"database"`
	Files      int     `json:"files"`
	Completed  int     `json:"completed"`
	Unreadable int     `json:"unreadable"` // both by workers and one after the other
	Workers    int     `json:"workers"`
	Held       int     `json:"held_by_killed"` // tasks that the killed worker held
	TakenOver  int     `json:"taken_over"`     // of these, those that another worker ended under a newer lease
	Lost       int     `json:"lost"`           // not ended, or gone
	Doubled    int     `json:"doubled"`        // completed under two leases
	Different  int     `json:"different"`      // from the plain hash of the same file
	Changed    int     `json:"changed"`        // files that changed while the demo ran, so that they cannot be compared
	Equal      bool    `json:"equal"`
	OK         bool    `json:"ok"`
	Seconds    float64 `json:"seconds"`
}

// compare checks every task and every file.
func (d *demo) compare(ctx context.Context) (demoReport, error) {
	server := d.c.Info().Server
	r := demoReport{Database: server.Product + " " + server.Version, Files: len(d.files.paths),
		Workers: d.flags.workers, Held: len(d.held)}
	tasks, err := admin.New(d.c).List(ctx, admin.Filter{Queue: demoQueue, Limit: dbq.MaxBulk})
	if err != nil {
		return r, err
	}
	ended := map[uuid.UUID]dbq.Task{}
	for _, t := range tasks {
		if t.Ended() {
			ended[t.ID] = t
		}
	}
	for i, path := range d.files.paths {
		t, ok := ended[d.tasks[i]]
		if !ok {
			r.Lost++
			continue
		}
		if fence, held := d.held[t.ID]; held && t.Fence > fence {
			r.TakenOver++
		} else if held {
			r.Held-- // the server was still executing the dead worker's last call, which settled it
		}
		got := "" // of a file that cannot be read
		if t.State == dbq.StateCompleted {
			got = string(t.Result)
		}
		now := func() string { sum, _ := hashFile(d.files.dir, path); return sum }
		switch {
		case got == d.plain[i] && got != "":
			r.Completed++
		case got == d.plain[i]:
			r.Unreadable++
		case now() != d.plain[i]:
			r.Changed++
		default:
			r.Different++
		}
	}
	for _, times := range d.completed {
		if times > 1 {
			r.Doubled++
		}
	}
	r.Equal = r.Different == 0 && r.Lost == 0
	r.OK = r.Equal && r.Doubled == 0 && r.Held > 0 && r.TakenOver == r.Held
	return r, nil
}

func (a *app) printReport(r demoReport) error {
	if a.json {
		return a.printJSON(r)
	}
	equal, note := "yes", "to hashing the same files one after the other"
	if !r.Equal {
		equal = "no"
	}
	if r.Different > 0 {
		note = plural(r.Different, "file") + " differ from hashing them one after the other"
	}
	var b strings.Builder
	line := func(name string, value any, note string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-11s %6v  %s", name, value, note), " ") + "\n")
	}
	line("files", r.Files, "")
	line("completed", r.Completed, "")
	if r.Unreadable > 0 {
		line("unreadable", r.Unreadable, "no right to read them: POISON, as it should be")
	}
	line("taken over", r.TakenOver, fmt.Sprintf("of %d that worker 1 held when it was killed", r.Held))
	line("lost", r.Lost, "")
	line("doubled", r.Doubled, "tasks completed under two leases")
	if r.Changed > 0 {
		line("changed", r.Changed, "files that changed while the demo ran: left out of the comparison")
	}
	line("equal", equal, note)
	line("time", fmt.Sprintf("%.1fs", r.Seconds), fmt.Sprintf("with %d workers on %s", r.Workers, r.Database))
	_, err := io.WriteString(a.out, visibleLines(b.String()))
	return err
}
