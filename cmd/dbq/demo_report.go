package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// demoReport is what a demo found, and its --json.
type demoReport struct {
	Database   string  `json:"database"`
	Files      int     `json:"files"`
	Completed  int     `json:"completed"`
	Unreadable int     `json:"unreadable"` // by workers and one after the other alike
	Workers    int     `json:"workers"`
	Held       int     `json:"held_by_killed"` // tasks in the hands of the killed worker
	TakenOver  int     `json:"taken_over"`     // of these, done by another under a newer lease
	Lost       int     `json:"lost"`           // not ended, or gone
	Doubled    int     `json:"doubled"`        // completed under two leases
	Different  int     `json:"different"`      // from the plain hash of the same file
	Changed    int     `json:"changed"`        // files that changed while the demo ran, which nothing can be said about
	Equal      bool    `json:"equal"`
	OK         bool    `json:"ok"`
	Seconds    float64 `json:"seconds"`
}

// compare looks at every task and every file.
func (s *stage) compare(ctx context.Context, files fileSet, plain []hashed, ids []dbq.Enqueued, c *crew) (demoReport, error) {
	r := demoReport{Database: s.c.Server().Product + " " + s.c.Server().Version, Files: len(files.paths), Workers: c.size, Held: len(c.held)}
	ended, err := s.ended(ctx)
	if err != nil {
		return r, err
	}
	for i, path := range files.paths {
		t, ok := ended[ids[i].ID]
		if !ok {
			r.Lost++
			continue
		}
		if fence, held := c.held[t.ID]; held && t.Fence > fence {
			r.TakenOver++
		} else if held {
			r.Held-- // the server was still busy with the dead worker's last call, which settled it
		}
		got := hashed{sum: string(t.Result)}
		if t.State != dbq.StateCompleted {
			got = hashed{err: errors.New(string(t.Result))}
		}
		switch {
		case got.same(plain[i]) && got.err == nil:
			r.Completed++
		case got.same(plain[i]):
			r.Unreadable++
		case !hashFile(files.dir, path).same(plain[i]):
			r.Changed++
		default:
			r.Different++
		}
	}
	if r.Doubled, err = countDoubled(s.accepts); err != nil {
		return r, err
	}
	r.Equal = r.Different == 0 && r.Lost == 0
	r.OK = r.Equal && r.Doubled == 0 && r.Held > 0 && r.TakenOver == r.Held
	return r, nil
}

func (h hashed) same(other hashed) bool {
	return (h.err == nil) == (other.err == nil) && h.sum == other.sum
}

// ended reads the tasks that have ended, page by page.
func (s *stage) ended(ctx context.Context) (map[uuid.UUID]dbq.Task, error) {
	out := map[uuid.UUID]dbq.Task{}
	f := dbq.Filter{Queue: demoQueue, Limit: demoBatch}
	for {
		page, err := s.c.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			if t.Ended() {
				out[t.ID] = t
			}
			f.After = t.ID
		}
		if len(page) < f.Limit {
			return out, nil
		}
	}
}

// countDoubled counts the tasks for which workers were granted more than one completion.
func countDoubled(accepts string) (int, error) {
	f, err := os.Open(accepts)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	times := map[string]int{}
	doubled := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var id string
		var fence int64
		if _, err := fmt.Sscan(lines.Text(), &id, &fence); err != nil {
			return 0, fmt.Errorf("the workers' notes cannot be read: %q: %w", lines.Text(), err)
		}
		times[id]++
		if times[id] == 2 {
			doubled++
		}
	}
	return doubled, lines.Err()
}

func (a *app) printReport(r demoReport) error {
	if a.json {
		return a.printJSON(r)
	}
	type row struct {
		name  string
		value any
		note  string
	}
	rows := []row{
		{"files", r.Files, ""},
		{"completed", r.Completed, ""},
		{"unreadable", r.Unreadable, "no right to read them: POISON, as it should be"},
		{"taken over", r.TakenOver, fmt.Sprintf("of %d that worker 1 held when it was killed", r.Held)},
		{"lost", r.Lost, ""},
		{"doubled", r.Doubled, "tasks completed under two leases"},
		{"changed", r.Changed, "files that changed while the demo ran: left out of the comparison"},
		{"equal", yesNo(r.Equal), "to hashing the same files one after the other"},
		{"time", fmt.Sprintf("%.1fs", r.Seconds), fmt.Sprintf("with %d workers on %s", r.Workers, r.Database)},
	}
	for _, row := range rows {
		if (row.name == "unreadable" || row.name == "changed") && row.value == 0 {
			continue
		}
		if row.name == "equal" && r.Different > 0 {
			row.note = fmt.Sprintf("%s differ from hashing them one after the other", plural(r.Different, "file"))
		}
		line := fmt.Sprintf("%-11s %6v", row.name, row.value)
		if row.note != "" {
			line += "  " + row.note
		}
		if err := a.say("%s", line); err != nil {
			return err
		}
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
