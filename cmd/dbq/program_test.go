//go:build unix

package main

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// The worker is killed while a program has not yet read its payload. The part of the program that lives on must see all
// of it.
func TestProgramReadsItsWholePayloadAfterAKill(t *testing.T) {
	const size = 300_000
	u := newUser(t)
	u.write("payload", strings.Repeat("x", size))
	u.run("enqueue", "-q", "q", "--payload-file", "payload").id()
	b := u.startProcess(sh(`exec 3<&0
		(echo $$ > started; until [ -e go ]; do sleep 0.01; done; wc -c <&3 > part; mv part seen) & wait`)...)
	check.Eventually(t, "the program runs", func() bool { return u.read("started") != "" })
	b.signal(syscall.SIGKILL)
	b.wait()
	u.write("go", "")
	check.Eventually(t, "the payload is read", func() bool { return u.read("seen") != "" })
	if got := u.read("seen"); got != strconv.Itoa(size) {
		t.Errorf("the program saw %s bytes of %d, and took them for all", got, size)
	}
}

// Kills at any moment of the start of many programs.
func TestNoProgramSeesAShortPayload(t *testing.T) {
	const size, tasks, rounds = 300_000, 12, 4
	u := newUser(t)
	u.write("line", `{"queue":"q","payload":"`+strings.Repeat("x", size)+"\"}\n")
	for range tasks {
		u.feed(u.read("line"), "enqueue", "--lines").ok()
	}
	for round := range rounds {
		b := u.startProcess(sh(`wc -c >> sizes`, "-c", "4", "--lease", "300ms", "--quiet")...)
		want := round + 1
		check.Eventually(t, "programs have run", func() bool {
			return strings.Count(u.read("sizes"), "\n")+1 >= want && u.read("sizes") != ""
		})
		b.signal(syscall.SIGKILL)
		b.wait()
	}
	u.run(sh(`wc -c >> sizes`, "-c", "4", "--lease", "300ms", "--quiet", "--until-empty")...).ok()
	for line := range strings.Lines(u.read("sizes")) {
		if strings.TrimSpace(line) != strconv.Itoa(size) {
			t.Errorf("a program saw %q bytes of %d", line, size)
		}
	}
}

func TestProgramDiesWithItsWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a program when its parent dies")
	}
	u := newUser(t)
	u.run("enqueue", "-q", "q").id()
	b := u.startProcess(sh(`echo $$ > pid.part; mv pid.part pid; exec sleep 1000`)...)
	check.Eventually(t, "the program runs", func() bool { return u.read("pid") != "" })
	pid, err := strconv.Atoi(u.read("pid"))
	check.OK(t, err)
	b.signal(syscall.SIGKILL)
	b.wait()
	u.gone([]int{pid})
}

func TestProgramsGetNoDatabaseSecrets(t *testing.T) {
	u := newUser(t)
	const dsn = "q.db?synchronous=full"
	u.run("--dsn", "q.db", "migrate").ok()
	u.env = append(u.env, "DBQ_DSN="+dsn, "PGPASSWORD=hush", "PGHOST=h", "MYSQL_PWD=hush", "DATABASE_URL=see "+dsn,
		"SMTP_PASSWORD=needed", "DBQ_EXTRA=x")
	environ := func(flags ...string) string {
		id := u.run("enqueue", "-q", "q").id()
		u.run(sh("env", append(flags, "--until-empty", "--quiet")...)...).ok()
		return "\n" + u.run("show", id, "--result").ok()
	}
	secrets := []string{"\nDBQ_DSN=", "\nPGPASSWORD=", "\nPGHOST=", "\nMYSQL_PWD=", "\nDATABASE_URL=", "\nDBQ_EXTRA="}
	has := func(got string, wanted ...string) {
		t.Helper()
		for _, name := range secrets {
			want := false
			for _, w := range wanted {
				want = want || w == name
			}
			if strings.Contains(got, name) != want {
				t.Errorf("%q is there: %v, want %v: %s", name, !want, want, got)
			}
		}
		if !strings.Contains(got, "\nSMTP_PASSWORD=needed") || !strings.Contains(got, "\nDBQ_TASK_ID=") ||
			!strings.Contains(got, "\nPATH=") {
			t.Errorf("what the program needs is missing: %s", got)
		}
	}
	has(environ())
	has(environ("--env", "PGHOST", "--env", "DATABASE_URL"), "\nPGHOST=", "\nDATABASE_URL=")
	has(environ("--pass-env"), secrets...)
	u.run("work", "-q", "q", "--env", "A=B", "--", "true").fails(exitUsage, "--env")
}

// The path of a file is a short word, and no secret: what only has its letters in it is passed on.
func TestShortFileNameIsNotRedactedElsewhere(t *testing.T) {
	u := newUser(t)
	u.env = append(u.env, "DBQ_DSN=bin", "DATABASE=bin", "TOOLS=/opt/bin:/usr/local/bin")
	u.run("migrate").ok()
	id := u.run("enqueue", "-q", "q").id()
	u.run(sh("env", "--until-empty", "--quiet")...).ok()
	got := "\n" + u.run("show", id, "--result").ok()
	if !strings.Contains(got, "\nPATH=") || !strings.Contains(got, "\nTOOLS=/opt/bin") ||
		strings.Contains(got, "\nDATABASE=") {
		t.Errorf("the program was given %s", got)
	}
}

func TestDSNFile(t *testing.T) {
	u := newUser(t)
	u.write("dsn", "\n  sqlite:"+u.file("own.db")+" \n")
	u.run("--dsn-file", "dsn", "migrate").has("own.db")
	u.run("--dsn-file", "dsn", "enqueue", "-q", "q").id()
	u.run("stats", "--dsn-file", "dsn").has("q")
	u.run("--dsn-file", "dsn", "--dsn", "x.db", "stats").fails(exitUsage, "exclude each other")
	u.run("--dsn-file", "nope", "stats").fails(exitUsage, "cannot read --dsn-file")
	u.write("empty", "\n")
	u.run("--dsn-file", "empty", "stats").fails(exitUsage, "one DSN")
	u.write("two", "sqlite:a.db\nsqlite:b.db\n")
	u.run("--dsn-file", "two", "stats").fails(exitUsage, "one DSN")
	u.write("hostile", "postgres://app@srv:SE%zz"+secret+"@127.0.0.1:1/db")
	if o := u.run("--dsn-file", "hostile", "stats").fails(exitUsage); strings.Contains(o.err, secret) {
		t.Errorf("the password is shown: %s", o.err)
	}
}
