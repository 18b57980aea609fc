package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/sample"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

const (
	demoQueue = "demo"
	demoLease = 1500 * time.Millisecond
	// demoStuck is how long the demo waits for progress before it gives up: many times a lease.
	demoStuck = 30 * time.Second
)

type demoFlags struct {
	dir     string
	workers int
	files   int
}

func newDemo(a *app) *cobra.Command {
	var f demoFlags
	cmd := a.command("dbq demo", noArgs(""), func(ctx context.Context, _ []string) error {
		if a.prefix != "" {
			return usagef("the demo chooses the prefix of its tables: leave out --prefix")
		}
		return (&demo{app: a, flags: f, show: newProgress(a.err), completed: map[uuid.UUID]int{}}).run(ctx)
	})
	cmd.Long = fmt.Sprintf(cmd.Long, demoLease)
	cmd.Flags().StringVar(&f.dir, "dir", ".", "the `DIRECTORY` whose files are hashed")
	cmd.Flags().Var(intWithin(&f.workers, 3, 2, 50), "workers", "run `N` worker processes; one of them is killed")
	cmd.Flags().Var(intWithin(&f.files, 5000, 1, dbq.MaxBulk), "files", "hash at most `N` files")
	return cmd
}

// demo is one run of the demo.
type demo struct {
	*app
	flags demoFlags
	show  *progress

	temp  string // its directory
	c     *dbq.Client
	place string // where the queue is, for the reader

	files fileSet
	plain []string    // the hash of each file, made one after the other; "" of a file that cannot be read
	tasks []uuid.UUID // of each file

	workers []*demoProcess
	held    map[uuid.UUID]int64 // the tasks that the killed worker held, and their fences

	mu        sync.Mutex
	completed map[uuid.UUID]int // how many completions the database granted to workers, by task
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

	if err := d.chooseFiles(ctx); err != nil {
		return err
	}
	if err := d.hashAll(ctx); err != nil {
		return err
	}
	if err := d.enqueueAll(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := d.runWorkers(ctx); err != nil {
		return err
	}
	d.stopWorkers() // calls under way must end before the tasks are counted
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
		return failedf("the results are not as expected: see above")
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

// dropTables drops the demo's tables, even after an interrupt.
func (d *demo) dropTables(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	t, err := d.target()
	return errors.Join(err, d.c.Close(), dbq.DropTables(ctx, t.dsn, d.options()...))
}

// chooseFiles finds the files to hash, without the demo's own files, which change while it runs.
func (d *demo) chooseFiles(ctx context.Context) error {
	own := []string{filepath.Base(d.temp)}
	t, err := d.target()
	if err == nil && t.file != "" {
		for _, suffix := range sqliteSuffixes {
			own = append(own, filepath.Base(t.file)+suffix)
		}
	}
	if err == nil {
		d.files, err = findFiles(ctx, d.path(d.flags.dir), d.flags.files, own)
	}
	if err == nil && len(d.files.paths) == 0 {
		d.show.line("%s has no files: using %d generated files", d.files.dir, sampleFiles)
		d.files, err = makeFiles(filepath.Join(d.temp, "files"))
	}
	if err != nil {
		return err
	}
	d.show.line("%s of %s, %s", plural(len(d.files.paths), "file"), d.files.dir, d.place)
	for _, note := range d.files.notes {
		d.show.line("  %s", note)
	}
	return nil
}

// hashAll hashes the files one after the other.
func (d *demo) hashAll(ctx context.Context) error {
	began := time.Now()
	for i, path := range d.files.paths {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sum, _ := hashFile(d.files.dir, path)
		d.plain = append(d.plain, sum)
		d.show.update("hashing one after the other: %d of %d", i+1, len(d.files.paths))
	}
	d.show.line("hashed one after the other in %v", time.Since(began).Round(time.Millisecond))
	return nil
}

// enqueueAll puts each file on the queue.
func (d *demo) enqueueAll(ctx context.Context) error {
	began := time.Now()
	batch := make([]dbq.NewTask, len(d.files.paths))
	for i, path := range d.files.paths {
		batch[i] = dbq.NewTask{ID: dbq.NewID(), Kind: "sha256", Payload: []byte(path)}
		d.tasks = append(d.tasks, batch[i].ID)
	}
	if _, err := d.c.Queue(demoQueue).EnqueueMany(ctx, batch); err != nil {
		return err
	}
	d.show.line("enqueued %s in %v", plural(len(d.tasks), "task"), time.Since(began).Round(time.Millisecond))
	return nil
}

// demoReport is the result of a demo, also as --json.
type demoReport struct {
	Database   string  `json:"database"`
	Files      int     `json:"files"`
	Completed  int     `json:"completed"`
	Unreadable int     `json:"unreadable"` // both by workers and one after the other
	Workers    int     `json:"workers"`
	Held       int     `json:"held_by_killed"` // tasks that the killed worker held
	TakenOver  int     `json:"taken_over"`     // of these, those that another worker ended under a newer lease
	Lost       int     `json:"lost"`           // not ended, or missing
	Doubled    int     `json:"doubled"`        // completed under two leases
	Different  int     `json:"different"`      // from the plain hash of the same file
	Changed    int     `json:"changed"`        // files that changed while the demo ran, which cannot be compared
	Equal      bool    `json:"equal"`
	OK         bool    `json:"ok"`
	Seconds    float64 `json:"seconds"`
}

// compare checks every task and every file.
func (d *demo) compare(ctx context.Context) (demoReport, error) {
	server := d.c.Info().Server
	r := demoReport{Database: server.Product + " " + server.Version, Files: len(d.files.paths),
		Workers: d.flags.workers, Held: len(d.held)}
	listed, err := admin.New(d.c).List(ctx, admin.Filter{Queue: demoQueue, Limit: dbq.MaxBulk})
	if err != nil {
		return r, err
	}
	ended := map[uuid.UUID]dbq.Task{}
	for _, t := range listed.Tasks {
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
			r.Held-- // the server still executed the dead worker's last call, which settled the task
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
		line("unreadable", r.Unreadable, "no permission to read them: POISON, as expected")
	}
	line("taken over", r.TakenOver, fmt.Sprintf("of %d that worker 1 held when it was killed", r.Held))
	line("lost", r.Lost, "")
	line("doubled", r.Doubled, "tasks completed under two leases")
	if r.Changed > 0 {
		line("changed", r.Changed, "files that changed while the demo ran; not compared")
	}
	line("equal", equal, note)
	line("time", fmt.Sprintf("%.1fs", r.Seconds), fmt.Sprintf("with %d workers on %s", r.Workers, r.Database))
	_, err := io.WriteString(a.out, visibleLines(b.String()))
	return err
}

// demoDatabase is the name of the database of dbq serve --demo.
const demoDatabase = "demo"

// runDemo serves sample data in a temporary directory, which it removes at the end.
func (s *server) runDemo(ctx context.Context) (err error) {
	if s.configFile != "" || len(s.dsns) > 0 || s.dsnFile != "" || s.prefix != "" || s.schema != "" ||
		s.strategy != "" || s.changed("tokens") || s.changed("tls-cert") || s.changed("tls-key") {
		return usagef("--demo serves a database of its own on this machine: it goes with --listen and --drain only")
	}
	dir, err := os.MkdirTemp("", "dbq-serve-demo-")
	if err != nil {
		return fmt.Errorf("cannot create a temporary directory: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(dir); e != nil {
			err = errors.Join(err, failedf("the files of the demo could not be removed: %w", e))
		}
	}()
	dsn := "sqlite:" + filepath.Join(dir, "demo.db") + "?synchronous=normal"
	if err := fillDemo(ctx, dsn); err != nil {
		return err
	}
	return s.run(ctx, serveConfig{
		Listen: s.flags.Listen, Drain: s.flags.Drain, Quiet: true,
		Databases: map[string]*databaseConfig{demoDatabase: {DSN: dsn}},
	})
}

// fillDemo creates the demo's database.
func fillDemo(ctx context.Context, dsn string) error {
	c, err := dbq.Open(ctx, dsn, dbq.WithMigrate(), dbq.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return errors.Join(sample.Fill(ctx, c), c.Close())
}

// workDemo works on the demo's tasks, and returns when its workers have reported, with a function that ends that.
func (s *server) workDemo(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := sample.Run(ctx, s.clients[demoDatabase]); err != nil {
			s.logger.Error("serve: the demo's workers ended", "err", err)
		}
	}()
	begun, cease := context.WithTimeout(ctx, demoBegin)
	defer cease()
	sample.Await(begun, s.clients[demoDatabase])
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(demoEnd):
			s.logger.Warn("serve: the demo's workers have not ended in time")
		}
	}
}

// demoBegin and demoEnd are how long the demo's workers may take to begin and to end: longer than they need.
const demoBegin, demoEnd = 5 * time.Second, 10 * time.Second

// demoBytes bounds the bytes that a demo hashes, so that it takes seconds.
const demoBytes = 512 << 20

const sampleFiles = 200

// fileSet is the set of files that the demo hashes: regular files, by their paths within a directory.
type fileSet struct {
	dir   string
	paths []string
	notes []string // on files that were left out
}

// findFiles collects regular files in the order of their names, without .git and files with a name in own.
func findFiles(ctx context.Context, given string, most int, own []string) (fileSet, error) {
	dir, err := filepath.Abs(given)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fileSet{}, usagef("cannot use --dir: %w", unnamed(err))
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fileSet{}, usagef("--dir is not a directory")
	}
	s := fileSet{dir: dir}
	var bytes int64
	leftOut := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == dir:
			return usagef("cannot read --dir: %w", unnamed(err))
		case err != nil:
			leftOut++
			return nil
		case e.IsDir() && (e.Name() == ".git" || slices.Contains(own, e.Name())):
			return fs.SkipDir
		case !e.Type().IsRegular() || slices.Contains(own, e.Name()):
			return nil
		case len(s.paths) == most:
			s.notes = append(s.notes, fmt.Sprintf("only the first %d files are hashed (--files)", most))
			return fs.SkipAll
		}
		info, err := e.Info()
		if err != nil { // it vanished
			return nil
		}
		if bytes+info.Size() > demoBytes {
			leftOut++
			return nil
		}
		bytes += info.Size()
		name, err := filepath.Rel(dir, path)
		s.paths = append(s.paths, name)
		return err
	})
	if leftOut > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d skipped: directories that cannot be read, and files beyond %d MiB in total",
			leftOut, demoBytes>>20))
	}
	return s, err
}

// makeFiles creates files to hash if there are none.
func makeFiles(dir string) (fileSet, error) {
	s := fileSet{dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return s, err
	}
	for i := range sampleFiles {
		name := fmt.Sprintf("sample-%03d.txt", i)
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "sample file %d\n", i), 0o600); err != nil {
			return s, err
		}
		s.paths = append(s.paths, name)
	}
	return s, nil
}

// hashFile is the work of the demo, both alone and in a worker.
func hashFile(dir, path string) (string, error) {
	path = filepath.Join(dir, path)
	// A file may have become a pipe, which would never end.
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("no longer a regular file"))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
