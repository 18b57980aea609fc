package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const intro = `<!-- Written by bench out of benchmarks.json. Do not edit. -->
# Benchmarks

Each part was measured in one run, on one machine that ran both the clients and the servers. The contenders took turns
in each round. A figure is the median of the rounds, with their minimum and maximum. **x peer** is the median divided by
the best peer's, **x floor** the median divided by the floor's. For times, statements and bytes less is better; for all
other figures more is better. Ratios carry over to other machines better than figures do.

Every task has a payload of %d bytes of JSON, which its handler decodes; handlers do nothing else. Every run checks that
each task was handled and stored as completed exactly once. [performance.md](performance.md) explains the results, and
says what else was tried.

- **dbq, loop** is Checkout of %d and Settle in %d goroutines. **dbq, worker** is package worker with %d handlers; it
  records each attempt unless the name says otherwise. A strategy is named where the engine has several; without a name
  it is the engine's default.
- **floor** is three set-based statements over dbq's own table and indexes: insert all, mark all, finish all. Nothing
  that handles tasks one by one can be faster. Its drain is the last two statements.
- **River** v0.51 runs with the settings of its own benchmark: 2,000 workers, a fetch every 2 ms, InsertManyFast (COPY)
  for bulk. It is not measured on SQLite.
- **graphile-worker** v0.17 also runs with the settings of its own benchmark: localQueue 500, completeJobBatchDelay 0,
  24 jobs at once. It deletes completed jobs. It runs in a process of Node.js, and so does pg-boss.
- **pg-boss, loop** is pg-boss v10 (the last for Node.js 20). It fetches and completes in batches of 500, in 4 loops,
  since its own workers pause between two fetches. It gets a fifth of the tasks: its fetch sorts all waiting tasks, so
  fewer are faster.
- **backlite** v0.6 runs with %d workers on one connection, the best setting found. It gets a tenth of the tasks: its
  claim sorts all waiting tasks, so fewer are faster.
- **goqite's technique** is one UPDATE … RETURNING and one DELETE for each message. **Solid Queue's technique** is its
  tables and statements with claims of %d in %d loops. Both are plain loops in Go, with a fifth of the tasks.
- A figure for deleted tasks is compared with the fastest peer, even if that peer keeps them.
`

// render writes the page of a directory and its plots from the results saved there.
func render(directory string) error {
	r, err := saved(directory)
	if err != nil {
		return err
	}
	if len(r.Parts) == 0 {
		return fmt.Errorf("%s holds nothing: measure with -save first", filepath.Join(directory, savedName))
	}
	plots := filepath.Join(directory, "benchmarks")
	if err := os.RemoveAll(plots); err != nil {
		return err
	}
	if err := os.Mkdir(plots, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, intro, payloadSize, ourBatch, loopGoroutines, handlers, backliteWorkers, solidClaim, solidThreads)
	b.WriteString("\n## Goals\n\n| | measured | goal | |\n|---|--:|--:|---|\n")
	for _, g := range r.goals() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.text, g.gotText(), g.wantText(), g.verdict())
	}
	for _, p := range r.Parts {
		if err := p.page(&b, plots); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(directory, "benchmarks.md"), []byte(b.String()), 0o644)
}

var partTitles = map[string]string{
	partThroughput: "Throughput",
	partMillion:    "Throughput with many tasks",
	partProcesses:  "Several processes",
	partCost:       "What a task costs",
	partPickup:     "Pick-up latency",
	partGrowth:     "Growth",
	partSchedules:  "Schedules",
	partLimits:     "Limits",
	partHTTP:       "HTTP",
	partConsole:    "The console and the statistics",
}

var partNotes = map[string]string{
	partProcesses: "Each is a separate process with its own connections, all on the same machine.",
	partCost: `Statements are counted between client and server, including BEGIN and COMMIT. Bytes are what the server
wrote to its WAL or redo log meanwhile. Both are for a bulk enqueue and its drain, divided by the number of tasks.
Enqueues are in batches of 5000.`,
	partPickup: `The time from the acknowledgement of an enqueue to the start of its handler. Half load is the same rate
for all contenders on a server: half of what the slowest of them keeps up with, enqueued one by one by 4 producers. With
"by notification", another client than the worker's enqueues. "Enqueue and pick-up" starts at the call that enqueues, so
that it does not matter which part of the work comes before the acknowledgement.`,
	partGrowth: `Here "x floor" is the ratio to the first line.`,
	partSchedules: `A tenth of the schedules are put for one time, and one process fires them, or three together. A
transaction enqueues the tasks of up to 50 schedules and moves these to their next times. "From a schedule's time to its
task" is how late the tasks of schedules are that are due one after the other, by the database's clock. While few are
due, a process that runs schedules reads the next ten of them once in five seconds; the read of all ten schedules shows
what that costs. "x floor" is the ratio to the first line. River's leader keeps periodic jobs in memory and inserts
those that are due together at once. A new leader begins anew, so that times without a leader are lost. dbq's schedules
are in the database, and each time fires once, whoever fires it.`,
	partLimits: `Four loops take and settle 50 tasks at a time; the worker has batches of 50, too. The limits are of leased
tasks of each key. "x floor" is the ratio to the first line.`,
	partHTTP: `Four loops enqueue, and four take and settle, one task or 100 with each request. The server of the HTTP API
runs in the same process, over loopback and without TLS, so the clients' part of the work counts too. "x floor" is the
ratio to the same calls of the library.`,
	partConsole: `100 queues have the tasks: one has half of them, and one a tenth, a fifth of which are in PROCESSING,
in ERROR or in POISON; of the others, 98 % are COMPLETED. The archive has a tenth as many tasks, and the audit a
hundredth as many entries. Each page is requested from the console's handler by a user who is signed in with a token: by
a console that has counted the tasks of all queues, as dbq serve does when it starts, but has not shown the page yet,
and again by the same one. The sample of the statistics is what one elected client does once a minute.`,
}

func (p part) page(b *strings.Builder, plots string) error {
	fmt.Fprintf(b, "\n## %s\n\n", partTitles[p.Name])
	if note := partNotes[p.Name]; note != "" {
		fmt.Fprintf(b, "%s\n\n", note)
	}
	fmt.Fprintf(b, "`%s`, %s, %d rounds in %s, %s\n\n", p.Command, p.When, p.Rounds, p.Took, p.Machine)
	for _, line := range p.Engines {
		fmt.Fprintf(b, "- %s\n", line)
	}
	for _, line := range p.Skipped {
		fmt.Fprintf(b, "- not measured: %s\n", line)
	}
	for i := 0; i < len(p.Results); {
		group := p.Results[i].Group
		end := i
		for end < len(p.Results) && p.Results[end].Group == group {
			end++
		}
		rows := p.Results[i:end]
		i = end
		if p.Name == partConsole {
			fmt.Fprintf(b, "\n### %s: %s\n", partTitles[p.Name], group)
			consoleTables(b, rows)
			continue
		}
		name := p.Name + "-" + slug(group) + ".svg"
		if err := os.WriteFile(filepath.Join(plots, name), []byte(chart(rows)), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(b, "\n### %s: %s\n\n![%s](benchmarks/%s)\n", partTitles[p.Name], group, group, name)
		tables(b, rows)
	}
	return nil
}

func tables(b *strings.Builder, rows []result) {
	f := figure("")
	for _, row := range rows {
		if row.Figure != f {
			f = row.Figure
			fmt.Fprintf(b, "\n| %s | %s | min - max | x peer | x floor | tasks |\n|---|--:|--:|--:|--:|--:|\n", f, row.Unit)
		}
		fmt.Fprintf(b, "| %s | %s | %s - %s | %s | %s | %d |\n",
			row.Contender, amount(row.Median), amount(row.Min), amount(row.Max),
			ratio(row.PerPeer), ratio(max(row.PerFloor, row.PerBase)), row.Tasks)
	}
}

// slug returns a group's name as part of a file's name.
func slug(group string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.ReplaceAll(strings.ToLower(group), ", synchronous=", "-")), "-")
}
