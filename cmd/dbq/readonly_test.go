//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// nobody is a user without rights, such as a monitor that may read the files.
const nobody = 65534

// asNobody runs dbq as another user, which only root can. The test's program is where that user can run it.
func (u *user) asNobody(args ...string) outcome {
	u.t.Helper()
	if os.Geteuid() != 0 {
		u.t.Skip("only root can run a program as another user")
	}
	program := u.file("dbq-of-nobody")
	if _, err := os.Stat(program); err != nil {
		copyProgram(u.t, program)
	}
	cmd := u.command(args...)
	cmd.Path, cmd.Args[0] = program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		u.t.Fatalf("dbq %q: %v", args, err)
	}
	return outcome{u.t, args, out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	check.OK(t, err)
	from, err := os.Open(self)
	check.OK(t, err)
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	check.OK(t, err)
	if _, err := io.Copy(f, from); err != nil {
		t.Fatal(err)
	}
	check.OK(t, f.Close())
}

// files are the names in the user's directory that begin with one.
func (u *user) files(prefix string) []string {
	u.t.Helper()
	found, err := filepath.Glob(u.file(prefix + "*"))
	if err != nil {
		u.t.Fatal(err)
	}
	return found
}

// A user who can read a SQLite file, and neither write it nor make files beside it, sees all that is committed, whether
// or not another process writes; what changes something is denied.
func TestReaderOfASQLiteFileNeedsNoRightToWrite(t *testing.T) {
	u := newUser(t)
	u.run("--dsn", "own.db", "migrate").ok()
	for path, mode := range map[string]os.FileMode{u.file("own.db"): 0o644, u.dir: 0o755, filepath.Dir(u.dir): 0o755} {
		check.OK(t, os.Chmod(path, mode))
	}
	want := func(how string, tasks int) {
		t.Helper()
		for _, dsn := range []string{"own.db", "own.db?mode=ro"} {
			if out := u.asNobody("--dsn", dsn, "list", "--json").ok(); strings.Count(out, `"id"`) != tasks {
				t.Errorf("%s, %s lists\n%s\nwant %d tasks", how, dsn, out, tasks)
			}
			u.asNobody("--dsn", dsn, "stats").ok()
			u.asNobody("--dsn", dsn, "worker", "list").ok()
			u.asNobody("--dsn", dsn, "enqueue", "-q", "q").fails(exitUnavailable, "access")
		}
	}
	u.run("--dsn", "own.db", "enqueue", "-q", "q").id()
	want("with nobody else", 1)
	c, err := dbq.Open(t.Context(), "sqlite:"+u.file("own.db"))
	check.OK(t, err)
	defer c.Close()
	for n := 2; n < 4; n++ {
		if _, err := c.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Fatal(err)
		}
		want("beside a writer", n)
	}
	crashed := newCrash(t, u, "own.db")
	c.Close()
	want("after the writer", 3)
	if out := u.asNobody("--dsn", crashed, "list", "--json").ok(); strings.Count(out, `"id"`) != 3 {
		t.Errorf("after a writer that crashed it lists\n%s\nwant 3 tasks", out)
	}
	if err := os.Chmod(u.file("own.db"), 0o666); err != nil { // the directory is not writable
		t.Fatal(err)
	}
	want("with a file in a directory of others", 3)
	if left := u.files("own.db"); len(left) != 1 {
		t.Errorf("readers left %q", left)
	}
}

// newCrash copies a database as a writer that dies now leaves it, and returns the copy's path.
func newCrash(t *testing.T, u *user, file string) string {
	t.Helper()
	const to = "crashed.db"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(u.file(file + suffix))
		if err == nil {
			err = os.WriteFile(u.file(to+suffix), b, 0o644)
		}
		check.OK(t, err)
	}
	return to
}

// mode=ro also holds for a user who could write.
func TestReadOnlyMode(t *testing.T) {
	u := newUser(t)
	u.run("--dsn", "own.db", "migrate").ok()
	u.run("--dsn", "own.db", "enqueue", "-q", "q").id()
	u.run("--dsn", "own.db?mode=ro", "stats").ok()
	u.run("--dsn", "own.db?mode=ro", "enqueue", "-q", "q").fails(exitUnavailable, "access")
	u.run("--dsn", "sqlite:"+u.file("none.db")+"?mode=ro", "stats").fails(exitNotMigrated)
	if left := u.files("none.db"); len(left) != 0 {
		t.Errorf("a reader made %q", left)
	}
}
