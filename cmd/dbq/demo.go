package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

const (
	demoQueue = "demo"
	demoLease = 1500 * time.Millisecond
	// demoStuck is how long the demo waits for progress before it gives up: many times a lease.
	demoStuck = 30 * time.Second
	// demoBatch is how many tasks one call enqueues or lists.
	demoBatch = 1000
)

const demoLong = `See what the queue is for: hash the files of a folder with several worker processes, kill one of them
in the middle, and check that nothing was lost and nothing done twice.

It hashes the files one after the other, puts each of them on a queue, starts workers that hash them again
(SHA-256, with a lease of %v), and sends one worker SIGKILL when a third of the work is done. The others take
over what it held as soon as the leases have expired. In the end each result is compared with the plain hash,
and each completion that a worker was granted is counted.

The work and the crash are real. Two things are arranged: workers pause a little at each file, so that there is
something to see, and the worker to be killed keeps its first file in hand, so that the kill is certain to leave
unfinished work behind.

The queue is a SQLite file in a temporary folder. With --dsn it is that database, in tables of its own that are
dropped in the end. DBQ_DSN is not used: a demo should not go to a database by accident.

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
			return (&demo{app: a, flags: f, show: newProgress(a.err)}).run(ctx)
		}),
	}
	cmd.Flags().StringVar(&f.dir, "dir", ".", "the `FOLDER` whose files are hashed")
	cmd.Flags().IntVar(&f.workers, "workers", 3, "`N` worker processes")
	cmd.Flags().IntVar(&f.files, "files", 5000, "take `N` files at most")
	return cmd
}

// demo is one run of the demo.
type demo struct {
	*app
	flags demoFlags
	show  *progress

	temp        string // its folder
	completions string // the file to which workers write each completion that they were granted
	c           *dbq.Client
	place       string // where the queue is, for the reader

	files fileSet
	plain []hashed    // of each file, hashed one after the other
	tasks []uuid.UUID // of each file

	workers []*demoProcess
	held    map[uuid.UUID]int64 // the tasks that the killed worker held, and their fences
}

// run hashes the files, has workers hash them, kills one, and compares.
func (d *demo) run(ctx context.Context) (err error) {
	defer d.show.end()
	if d.temp, err = os.MkdirTemp("", "dbq-demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.temp)
	if err := d.openQueue(ctx); err != nil {
		return err
	}
	defer func() {
		if e := d.dropTables(ctx); e != nil && err == nil {
			err = fmt.Errorf("the demo's tables could not be dropped: %w", e)
		}
	}()
	defer d.stopWorkers()

	if d.files, err = findFiles(ctx, d.flags, d.ownFiles()); err != nil {
		return err
	}
	if len(d.files.paths) == 0 {
		d.show.line("%s has no files: using %d made up ones", d.files.dir, sampleFiles)
		if d.files, err = makeFiles(filepath.Join(d.temp, "files")); err != nil {
			return err
		}
	}
	d.show.line("%s of %s, %s", plural(len(d.files.paths), "file"), d.files.dir, d.place)
	for _, note := range d.files.notes {
		d.show.line("  %s", note)
	}
	for _, step := range []func(context.Context) error{d.hashAll, d.enqueueAll} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := d.runWorkers(ctx); err != nil {
		return err
	}
	d.stopWorkers() // what is still under way must be settled, or not, before it is counted
	r, err := d.compare(ctx)
	if err != nil {
		return err
	}
	r.Seconds = time.Since(began).Seconds()
	d.show.end()
	if err := d.printReport(r); err != nil {
		return err
	}
	if !r.OK {
		return failedf("the demo's result is not what it should be: see above")
	}
	return nil
}

// openQueue opens the database and makes the demo's own tables.
func (d *demo) openQueue(ctx context.Context) error {
	if d.dsn == "" {
		d.dsn, d.place = "sqlite:"+filepath.Join(d.temp, "demo.db"), "queue in a temporary SQLite file"
	}
	id := dbq.NewID()
	d.prefix = fmt.Sprintf("demo_%x_", id[10:])
	d.completions = filepath.Join(d.temp, "completions")
	t, err := d.target()
	if err != nil {
		return err
	}
	if d.c, err = dbq.Open(ctx, t.dsn, append(d.options(), dbq.WithMigrate())...); err != nil {
		return err
	}
	d.caution(t.note)
	if server := d.c.Info().Server; d.place == "" {
		d.place = fmt.Sprintf("queue in %s %s, tables %s*", server.Product, server.Version, d.prefix)
	}
	return nil
}

// dropTables drops the demo's tables, also after an interrupt.
func (d *demo) dropTables(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	t, err := d.target()
	return errors.Join(err, d.c.Close(), dbq.DropTables(ctx, t.dsn, d.options()...))
}

// ownFiles are the files of the demo itself, which change while it runs.
func (d *demo) ownFiles() []string {
	own := []string{d.temp}
	if t, err := d.target(); err == nil && t.file != "" {
		for _, suffix := range sqliteSuffixes {
			own = append(own, t.file+suffix)
		}
	}
	return own
}

// hashAll hashes the files one after the other.
func (d *demo) hashAll(ctx context.Context) error {
	began := time.Now()
	for i, path := range d.files.paths {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.plain = append(d.plain, hashFile(d.files.dir, path))
		d.show.update("hashing one after the other: %d of %d", i+1, len(d.files.paths))
	}
	d.show.line("hashed one after the other in %v", time.Since(began).Round(time.Millisecond))
	return nil
}

// enqueueAll puts each file on the queue.
func (d *demo) enqueueAll(ctx context.Context) error {
	began := time.Now()
	for paths := range slices.Chunk(d.files.paths, demoBatch) {
		batch := make([]dbq.NewTask, len(paths))
		for i, path := range paths {
			batch[i] = dbq.NewTask{ID: dbq.NewID(), Kind: "sha256", Payload: []byte(path)}
			d.tasks = append(d.tasks, batch[i].ID)
		}
		if _, err := d.c.Queue(demoQueue).EnqueueMany(ctx, batch); err != nil {
			return err
		}
	}
	d.show.line("enqueued %s in %v", plural(len(d.tasks), "task"), time.Since(began).Round(time.Millisecond))
	return nil
}
