package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

const (
	demoQueue = "demo"
	demoLease = 1500 * time.Millisecond
	// demoStuck is how long nothing may move before the demo gives up: many times a lease.
	demoStuck = 30 * time.Second
)

const demoLong = `See what the queue is for: hash the files of a folder with several worker processes, kill one of them in the middle, and check
that nothing was lost and nothing done twice.

It hashes the files one after the other, puts each of them on a queue, starts workers that hash them again (SHA-256, with a
lease of %v), and sends one worker SIGKILL when a third of the work is done. The others take over what it held as soon as
the leases have run out. In the end each result is compared with the plain hash, and each completion that a worker was
granted is counted.

The work and the crash are real. Two things are arranged: workers pause a little at each file, so that there is something to
see, and the worker to be killed keeps its first file in hand, so that the kill is certain to leave unfinished work behind.

The queue is a SQLite file in a temporary folder. With --dsn it is that database, in tables of its own that are dropped in the
end. DBQ_DSN is not used: a demo should not go to a database by accident.

Exit code 0 when all is equal, 1 when not. With --json it prints one document.`

type demoFlags struct {
	dir     string
	workers int
	files   int
}

func newDemo(a *app) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: files hashed by three workers, one of them killed",
		Long:  fmt.Sprintf(demoLong, demoLease),
		Example: `  dbq demo
  dbq demo --dir ~/src --workers 5
  dbq demo --dsn postgres://app@localhost/app`,
		Args: noArgs(""),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			switch {
			case f.workers < 2 || f.workers > 50:
				return usagef("--workers %d: it must be between 2 (one is killed) and 50", f.workers)
			case f.files < 1 || f.files > 100_000:
				return usagef("--files %d: it must be between 1 and 100000", f.files)
			case a.prefix != "":
				return usagef("the demo makes tables under a prefix of its own: leave out --prefix")
			}
			return a.demo(ctx, f)
		}),
	}
	cmd.Flags().StringVar(&f.dir, "dir", ".", "the `FOLDER` whose files are hashed")
	cmd.Flags().IntVar(&f.workers, "workers", 3, "`N` worker processes")
	cmd.Flags().IntVar(&f.files, "files", 5000, "take `N` files at most")
	return cmd
}

// demo is the whole show: files, plain hashes, tasks, workers, a kill, the comparison.
func (a *app) demo(ctx context.Context, f demoFlags) (err error) {
	show := newProgress(a.err)
	defer show.end()
	temp, err := os.MkdirTemp("", "dbq-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	stage, err := a.newStage(ctx, temp)
	if err != nil {
		return err
	}
	defer func() {
		if e := stage.strike(ctx); e != nil && err == nil {
			err = fmt.Errorf("the demo's tables could not be dropped: %w", e)
		}
	}()

	files, err := findFiles(ctx, f, stage.ownFiles())
	if err != nil {
		return err
	}
	if len(files.paths) == 0 {
		show.line("%s has no files: using %d made up ones", files.dir, sampleFiles)
		if files, err = makeFiles(filepath.Join(temp, "files")); err != nil {
			return err
		}
	}
	show.line("%s of %s, %s", plural(len(files.paths), "file"), files.dir, stage.place)
	for _, note := range files.notes {
		show.line("  %s", note)
	}
	begin := time.Now()
	plain, err := hashAll(ctx, files, show)
	if err != nil {
		return err
	}
	show.line("hashed one after the other in %v", time.Since(begin).Round(time.Millisecond))

	begin = time.Now()
	tasks, err := stage.enqueue(ctx, files)
	if err != nil {
		return err
	}
	show.line("enqueued %s in %v", plural(len(tasks), "task"), time.Since(begin).Round(time.Millisecond))

	begin = time.Now()
	c := &crew{stage: stage, dir: files.dir, show: show, size: f.workers}
	c.slots, c.pause = pace(len(tasks), f.workers)
	defer c.dismiss()
	if err := c.perform(ctx, len(tasks)); err != nil {
		return err
	}
	c.dismiss() // what is still under way must be settled, or not, before it is counted
	r, err := stage.compare(ctx, files, plain, tasks, c)
	if err != nil {
		return err
	}
	r.Seconds = time.Since(begin).Seconds()
	show.end()
	if err := a.printReport(r); err != nil {
		return err
	}
	if !r.OK {
		return failedf("the demo's result is not what it should be: see above")
	}
	return nil
}

// stage is the database of a demo.
type stage struct {
	c       *dbq.Client
	dsn     string
	prefix  string
	opts    []dbq.Option // of every client, workers included
	flags   []string     // the same for a worker's command line
	accepts string       // the file in which workers note each completion that they were granted
	temp    string
	place   string // for the reader
}

// newStage opens the database and makes the demo's own tables.
func (a *app) newStage(ctx context.Context, temp string) (*stage, error) {
	s, note := &stage{temp: temp, accepts: filepath.Join(temp, "accepted")}, ""
	if a.dsn == "" {
		s.dsn, s.place = "sqlite:"+filepath.Join(temp, "demo.db"), "queue in a temporary SQLite file"
	} else {
		t, err := a.target()
		if err != nil {
			return nil, err
		}
		s.dsn, note = t.dsn, t.note
	}
	id := dbq.NewID()
	s.prefix = fmt.Sprintf("demo_%x_", id[10:])
	a.prefix = s.prefix
	s.opts = a.options()
	s.flags = []string{"--prefix", s.prefix}
	if a.schema != "" {
		s.flags = append(s.flags, "--schema", a.schema)
	}
	if a.strategy != "" {
		s.flags = append(s.flags, "--strategy", a.strategy)
	}
	var err error
	s.c, err = dbq.Open(ctx, s.dsn, append(s.opts, dbq.WithMigrate())...)
	if err != nil {
		return nil, err
	}
	a.caution(note)
	if s.place == "" {
		s.place = fmt.Sprintf("queue in %s %s, tables %s*", s.c.Server().Product, s.c.Server().Version, s.prefix)
	}
	return s, nil
}

// strike drops the tables, also after an interrupt.
func (s *stage) strike(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	return errors.Join(s.c.Close(), dbq.DropTables(ctx, s.dsn, s.opts...))
}

// ownFiles are the files of the demo itself, which change while it runs.
func (s *stage) ownFiles() []string {
	own := []string{s.temp}
	if file := sqliteFile(s.dsn); file != "" {
		for _, suffix := range sqliteSuffixes {
			own = append(own, file+suffix)
		}
	}
	return own
}

// demoBatch is small enough to stop between two of them.
const demoBatch = 1000

// enqueue puts each file on the queue; the ids are in the files' order.
func (s *stage) enqueue(ctx context.Context, files fileSet) ([]dbq.Enqueued, error) {
	var all []dbq.Enqueued
	q := s.c.Queue(demoQueue)
	for from := 0; from < len(files.paths); from += demoBatch {
		var batch []dbq.NewTask
		for _, path := range files.paths[from:min(from+demoBatch, len(files.paths))] {
			batch = append(batch, dbq.NewTask{Kind: "sha256", Payload: []byte(path)})
		}
		out, err := q.EnqueueMany(ctx, batch)
		if err != nil {
			return nil, err
		}
		all = append(all, out...)
	}
	return all, nil
}
