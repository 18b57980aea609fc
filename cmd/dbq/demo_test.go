//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// tree makes a directory of files, some with names that want care.
func (u *user) tree(n int) string {
	u.t.Helper()
	dir := u.file("tree")
	if err := os.MkdirAll(filepath.Join(dir, "sub directory", ".git"), 0o700); err != nil {
		u.t.Fatal(err)
	}
	names := []string{"sub directory/in it", "new\nline", "-dash", "üñí", "empty"}
	for i := range n - len(names) {
		names = append(names, fmt.Sprintf("f%03d", i))
	}
	u.write("tree/sub directory/.git/config", "not to be taken")
	for i, name := range names {
		u.write(filepath.Join("tree", name), strings.Repeat(name, i%50))
	}
	// Not every file system takes a name that is not UTF-8; where it does not there is one file less with an odd name.
	odd := filepath.Join(dir, "odd\xff\xfe")
	if os.WriteFile(odd, []byte("odd"), 0o600) != nil {
		u.write("tree/odd", "odd")
	}
	if err := os.Symlink("f000", filepath.Join(dir, "link")); err != nil {
		u.t.Fatal(err)
	}
	return dir
}

// leftNothing checks that nothing of a demo is there any more.
func (u *user) leftNothing(stderr string) {
	u.t.Helper()
	for _, m := range workerStarted.FindAllStringSubmatch(stderr, -1) {
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			u.t.Fatal(err)
		}
		check.Eventually(u.t, "worker "+m[1]+" is gone", func() bool { return !alive(pid) })
	}
	if left := filesIn(u.t, u.tmp()); len(left) > 0 {
		u.t.Errorf("left in the temporary directory: %v", left)
	}
}

var workerStarted = regexp.MustCompile(`worker \d+ started, pid (\d+)`)

func (u *user) tmp() string {
	for _, kv := range u.env {
		if dir, ok := strings.CutPrefix(kv, "TMPDIR="); ok && dir != os.TempDir() {
			return dir
		}
	}
	u.t.Fatal("no TMPDIR")
	return ""
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			names = append(names, path)
		}
		return err
	})
	check.OK(t, err)
	return names
}

// sound checks a demo's numbers.
func (o outcome) sound(files float64) map[string]any {
	o.t.Helper()
	r := o.one()
	for name, want := range map[string]any{"files": files, "completed": files, "lost": 0.0, "doubled": 0.0,
		"different": 0.0,
		"changed":   0.0, "equal": true, "ok": true} {
		if r[name] != want {
			o.t.Errorf("%s is %v, want %v", name, r[name], want)
		}
	}
	if r["taken_over"].(float64) < 1 || r["taken_over"] != r["held_by_killed"] {
		o.t.Errorf("%v taken over of %v", r["taken_over"], r["held_by_killed"])
	}
	return r
}

func TestDemo(t *testing.T) {
	for _, n := range []int{6, 60, 600} {
		t.Run(fmt.Sprint(n, " files"), func(t *testing.T) {
			u := newUser(t)
			dir := u.tree(n)
			before := filesIn(t, dir)
			o := u.exec("demo", "--dir", dir, "--json")
			o.sound(float64(n + 1))
			if !strings.Contains(o.err, "worker 1 killed (SIGKILL)") {
				t.Errorf("no kill: %s", o.err)
			}
			u.leftNothing(o.err)
			if after := filesIn(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the directory is not as it was: %v", after)
			}
		})
	}
}

func TestDemoOfOneFileAndNone(t *testing.T) {
	u := newUser(t)
	check.OK(t, os.Mkdir(u.file("d"), 0o700))
	o := u.exec("demo", "--dir", "d", "--json", "--workers", "2")
	o.sound(sampleFiles)
	u.write("d/only", "one")
	u.exec("demo", "--dir", "d", "--json").sound(1)
	o = u.exec("demo", "--dir", "d", "--workers", "5")
	o.has("files            1\n", "taken over       1  of 1", "lost             0\n", "equal          yes", "time")
	u.leftNothing(o.err)
}

func TestDemoIsBounded(t *testing.T) {
	u := newUser(t)
	o := u.exec("demo", "--dir", u.tree(20), "--files", "7", "--json")
	o.sound(7)
	if !strings.Contains(o.err, "first 7 files") {
		t.Errorf("it does not say that it left files out: %s", o.err)
	}
}

func TestDemoOnASQLiteFile(t *testing.T) {
	u := newUser(t)
	dir := u.tree(20)
	u.run("enqueue", "--queue", "mine", "--payload", "stays", "--dsn", "tree/own.db").fails(exitNotMigrated)
	u.run("migrate", "--dsn", "tree/own.db").ok()
	u.run("enqueue", "--queue", "mine", "--dsn", "tree/own.db").ok()
	o := u.exec("demo", "--dir", dir, "--dsn", "tree/own.db", "--json")
	o.sound(21)
	u.leftNothing(o.err)
	u.noTables("sqlite:"+u.file("tree/own.db"), o.err)
	u.run("stats", "--dsn", "tree/own.db").has("mine")
}

func TestDemoOnPostgres(t *testing.T) {
	dsn := os.Getenv("DBQ_TEST_POSTGRES_DSN")
	if dsn == "" {
		dsn = os.Getenv("DBQ_TEST_POSTGRES18_DSN")
	}
	if dsn == "" {
		t.Skip("neither DBQ_TEST_POSTGRES_DSN nor DBQ_TEST_POSTGRES18_DSN is set")
	}
	u := newUser(t)
	o := u.exec("demo", "--dir", u.tree(200), "--dsn", dsn, "--json")
	o.sound(201)
	u.leftNothing(o.err)
	u.noTables(dsn, o.err)
}

var demoTables = regexp.MustCompile(`tables (demo_[0-9a-f]+_)\*`)

// noTables checks that a demo's tables were dropped: opening them must say that they are not there.
func (u *user) noTables(dsn, stderr string) {
	u.t.Helper()
	m := demoTables.FindStringSubmatch(stderr)
	if m == nil {
		u.t.Fatalf("no tables are named: %s", stderr)
	}
	u.run("--dsn", dsn, "--prefix", m[1], "stats").fails(exitNotMigrated)
	_, pool, err := sqlrun.Open(context.Background(), dsn, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	defer pool.Close()
	for _, table := range []string{"task", "migration"} {
		if _, err := pool.Read.Exec("SELECT * FROM " + m[1] + table); err == nil {
			u.t.Errorf("table %s%s is still there", m[1], table)
		}
	}
}

func TestDemoInterrupted(t *testing.T) {
	u := newUser(t)
	b := u.startProcess("demo", "--dir", u.tree(300))
	b.err.waitFor(t, "worker 3 started")
	b.signal(os.Interrupt)
	o := b.wait().failsAtLast(exitInterrupted)
	u.leftNothing(o.err)
}

// failsAtLast wants an exit code and that the last line of stderr is the error.
func (o outcome) failsAtLast(code int) outcome {
	o.t.Helper()
	lines := strings.Split(strings.TrimSpace(o.err), "\n")
	if last := lines[len(lines)-1]; o.code != code || !strings.HasPrefix(last, "dbq: ") {
		o.t.Errorf("dbq %q: exit code %d, want %d; stderr %q", o.args, o.code, code, o.err)
	}
	return o
}

// The demo's workers must not outlive it, however it ends.
func TestDemoKilled(t *testing.T) {
	u := newUser(t)
	b := u.startProcess("demo", "--dir", u.tree(300))
	b.err.waitFor(t, "worker 3 started")
	b.signal(syscall.SIGKILL)
	o := b.wait()
	for _, m := range workerStarted.FindAllStringSubmatch(o.err, -1) {
		pid, err := strconv.Atoi(m[1])
		check.OK(t, err)
		check.Eventually(t, "worker "+m[1]+" is gone", func() bool { return !alive(pid) })
	}
}

// Files that change while the demo runs are told apart from wrong results.
func TestDemoOfChangingFiles(t *testing.T) {
	u := newUser(t)
	dir := u.tree(30)
	b := u.startProcess("demo", "--dir", dir, "--json")
	b.err.waitFor(t, "worker 1 killed")
	// What worker 1 held is hashed after its lease has expired, about a second from now.
	for _, path := range filesIn(t, dir) {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			check.OK(t, os.WriteFile(path, []byte("changed"), 0o600))
		}
	}
	o := b.wait()
	r := o.one()
	if r["changed"].(float64) < 1 || r["different"] != 0.0 || r["ok"] != true {
		t.Errorf("%v", r)
	}
	if r["completed"].(float64)+r["changed"].(float64) != r["files"] {
		t.Errorf("the numbers do not add up: %v", r)
	}
}

// A demo must find what is wrong, else its praise is worth nothing.
func TestDemoReportsEachViolation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	temp := t.TempDir()
	c, err := dbq.Open(ctx, "sqlite:"+filepath.Join(temp, "q.db"), dbq.WithMigrate())
	check.OK(t, err)
	defer c.Close()
	d := &demo{c: c, flags: demoFlags{workers: 2}, completed: map[uuid.UUID]int{}, show: newProgress(newWatched())}
	d.files = fileSet{dir: temp, paths: []string{"equal", "different", "lost", "doubled", "gone", "changed"}}
	for _, name := range d.files.paths {
		if name != "gone" {
			check.OK(t, os.WriteFile(filepath.Join(temp, name), []byte(name), 0o600))
		}
	}
	check.OK(t, errors.Join(d.hashAll(ctx), d.enqueueAll(ctx)))
	q := c.Queue(demoQueue)
	tasks, err := q.Checkout(ctx, 10, demoLease)
	if err != nil || len(tasks) != 6 {
		t.Fatal(len(tasks), err)
	}
	for _, task := range tasks {
		name := string(task.Payload)
		sum, err := hashFile(temp, name)
		end := dbq.Completed([]byte(sum))
		switch name {
		case "different", "changed":
			end = dbq.Completed([]byte("nonsense"))
		case "gone":
			end = dbq.Poisoned(err)
		case "lost":
			continue
		case "doubled":
			d.report(nil, fmt.Sprintf("%s %s %d", demoCompleted, task.ID, 7))
		}
		d.report(nil, fmt.Sprintf("%s %s %d", demoCompleted, task.ID, task.Fence))
		check.OK(t, q.Settle(ctx, task.Lease, end))
	}
	check.OK(t, os.WriteFile(filepath.Join(temp, "changed"), []byte("now something else"), 0o600))
	r, err := d.compare(ctx)
	check.OK(t, err)
	want := demoReport{Database: r.Database, Files: 6, Completed: 2, Unreadable: 1, Workers: 2, Lost: 1, Doubled: 1,
		Different: 1, Changed: 1}
	if r != want {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}
