//go:build unix

package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

func TestTypicalMistakesNameTheCure(t *testing.T) {
	u := newUser(t)
	u.run("statz").fails(exitUsage, `unknown command statz: try stats (see `)
	u.run("pause", "mail").fails(exitUsage, "try queue or worker")
	u.run("rerun").fails(exitUsage, "try retry")
	u.run("list", "-state", "error").fails(exitUsage, "--state", "`dbq help list`")
	u.run("list", "-state=error").fails(exitUsage, "--state")
	u.run("queue", "pause").fails(exitUsage, "`dbq help queue pause`")
	u.run("enqueue", "hello").fails(exitUsage, "--payload", "hello")
	u.run("list", "mail").fails(exitUsage, "--queue")
	u.run("stats", "mail").fails(exitUsage, "--queue")
	u.run("queue", "stop").fails(exitUsage, "stop", "pause")
	u.run("worker", "kill").fails(exitUsage, "kill", "stop")
	u.run("--dsn=", "stats").fails(exitUsage, "--dsn is empty", "DBQ_DSN")
	u.run("--dsn", "db.example:5432/app", "stats").fails(exitUsage, "postgres://")
	u.run("--dsn", "localhost:5432/app", "stats").fails(exitUsage, "postgres://")
	u.run("migrate").ok()
	u.run("schedule", "put", "n", "-q", "q", "--cron", "@daily", "--zone", "Berlin").fails(exitUsage, "Europe/Berlin")
}

// Most tests call run. This one is about what the process gives to it.
func TestProcess(t *testing.T) {
	u := newUser(t)
	u.exec("migrate").ok()
	if !exists(u.file("dbq.db")) {
		t.Error("the default file is not in the process's directory")
	}
	enqueue := u.command("enqueue", "--queue", "q", "--payload-file", "-")
	enqueue.Stdin = strings.NewReader("from stdin")
	id, err := enqueue.Output()
	check.OK(t, err)
	if got := u.exec("show", strings.TrimSpace(string(id)), "--payload").ok(); got != "from stdin" {
		t.Errorf("the payload is %q", got)
	}
	u.exec("migrate", "--dsn", "sqlite:dbq.db").has("already")
	u.env = append(u.env, "DBQ_DSN=other.db")
	u.exec("stats").fails(exitNotMigrated, `"other.db"`)
	u.exec("statz").fails(exitUsage, "try stats")
}

func TestVersionFlag(t *testing.T) {
	u := newUser(t)
	if out := u.exec("--version").ok(); !strings.HasPrefix(out, "dbq ") || strings.Count(out, "\n") != 1 {
		t.Errorf("--version prints %q", out)
	}
}

func TestQueueListAsJSON(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "mail").id()
	u.run("queue", "set", "mail", "--concurrency", "3", "--poll", "1500ms", "--keep-completed", "1w").ok()
	o := u.run("queue", "list", "--json")
	q := o.one()
	settings, ok := q["settings"].(map[string]any)
	if !ok || settings["concurrency"] != 3.0 || settings["poll_seconds"] != 1.5 ||
		settings["keep_completed_seconds"] != 604800.0 || len(settings) != 3 {
		t.Errorf("settings are %v", q["settings"])
	}
	if _, there := q["since"]; there || q["paused"] != false {
		t.Errorf("a queue that is not paused: %v", q)
	}
	u.run("queue", "list").has("--keep-completed 7d", "--poll 1.5s")
	u.run("queue", "pause", "mail").ok()
	o = u.run("queue", "list", "--json")
	if since, err := time.Parse(time.RFC3339, o.one()["since"].(string)); err != nil || time.Since(since) > time.Hour {
		t.Errorf("since %v, %v", since, err)
	}
}

func TestUntilEmptyOfAPausedQueue(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	u.run("queue", "pause", "q", "--reason", "the mail server is down").ok()
	u.run(sh("true", "--until-empty")...).fails(exitFailed, "paused", "the mail server is down", "dbq queue resume q")
	u.run("queue", "resume", "q").ok()
	u.run(sh("true", "--until-empty", "--quiet")...).ok()
	u.run("queue", "pause", "q").ok()
	u.run(sh("true", "--until-empty", "--quiet")...).ok()
	if got := u.task(id)["state"]; got != "COMPLETED" {
		t.Errorf("state %v", got)
	}
	b := u.start(sh("true")...)
	b.err.waitFor(t, "dbq queue resume q")
	b.stops()
}

func TestWorkShowsTheAttemptLimitInEffect(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	o := u.run(sh(`echo $DBQ_MAX_ATTEMPTS; exit 1`, "--until-empty", "--max-attempts", "2")...)
	if !strings.Contains(o.err, id+"  failed     attempt 1 of 2") {
		t.Errorf("stderr %q", o.err)
	}
	u.run("enqueue", "-q", "q").id()
	u.run("queue", "set", "q", "--max-attempts", "3").ok()
	if o := u.run(sh(`exit 1`, "--until-empty")...); !strings.Contains(o.err, "attempt 1 of 3") {
		t.Errorf("stderr %q", o.err)
	}
}

func TestListOrder(t *testing.T) {
	u := newUser(t)
	var ids []string
	for range 5 {
		ids = append(ids, u.run("enqueue", "-q", "q").id())
	}
	listed := func(args ...string) (out []string, note string) {
		o := u.run(append([]string{"list", "-q", "q"}, args...)...)
		for l := range strings.Lines(o.ok()) {
			if id, _, _ := strings.Cut(l, " "); id != "ID" {
				out = append(out, id)
			}
		}
		return out, o.err
	}
	got, note := listed("--limit", "2")
	if strings.Join(got, " ") != ids[4]+" "+ids[3] || !strings.Contains(note, "--after "+ids[3]) {
		t.Errorf("the newest are %v, %q", got, note)
	}
	if got, _ = listed("--limit", "2", "--after", ids[3]); strings.Join(got, " ") != ids[2]+" "+ids[1] {
		t.Errorf("then come %v", got)
	}
	if got, note = listed("--limit", "2", "--oldest-first"); strings.Join(got, " ") != ids[0]+" "+ids[1] ||
		!strings.Contains(note, "--oldest-first --after "+ids[1]) {
		t.Errorf("the oldest are %v, %q", got, note)
	}
}

func TestWatch(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "q").id()
	for _, line := range []string{"list", "stats", "worker list"} {
		u.run(append(strings.Fields(line), "--watch=1ms")...).fails(exitUsage, "--watch", "100ms")
	}
	b := u.start("stats", "--watch=100ms")
	b.out.waitFor(t, "QUEUE")
	u.run("enqueue", "-q", "later").id()
	b.out.waitFor(t, "later")
	b.stops()
	b = u.start("list", "--watch=100ms", "--json")
	check.Eventually(t, "it is listed again", func() bool { return strings.Count(b.out.String(), `"queue":"later"`) > 2 })
	b.stops()
}

func TestNamesAreCompleted(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "mail").id()
	u.run("enqueue", "-q", "maps").id()
	u.run("enqueue", "-q", "zip").id()
	for _, line := range []string{"queue pause ma", "list --queue ma", "work -q ma", "enqueue --queue ma", "stats -q ma",
		"reject -q ma"} {
		out := u.run(append([]string{"__complete"}, strings.Fields(line)...)...).ok()
		if !strings.HasPrefix(out, "mail\nmaps\n:4") {
			t.Errorf("%s is completed by %q", line, out)
		}
	}
	b := u.start(sh("true", "--id", "web/1", "--report-interval", "1s")...)
	b.err.waitFor(t, "web/1")
	check.Eventually(t, "the worker's name is completed", func() bool {
		return strings.HasPrefix(u.run("__complete", "worker", "stop", "w").out, "web/1\n")
	})
	out := u.run("__complete", "--dsn", "postgres://127.0.0.1:1/x", "queue", "pause", "").ok()
	if !strings.HasPrefix(out, ":4") {
		t.Errorf("without a database it is completed by %q", out)
	}
}

func TestErrorsNameTheCure(t *testing.T) {
	u := newUser(t)
	for scheme, variable := range map[string]string{"postgres": "DBQ_TEST_POSTGRES18_DSN",
		"mysql": "DBQ_TEST_MYSQL97_DSN", "mariadb": "DBQ_TEST_MARIADB118_DSN"} {
		dsn := os.Getenv(variable)
		if dsn == "" {
			continue
		}
		base, options, _ := strings.Cut(dsn, "?")
		dsn = base[:strings.LastIndex(base, "/")] + "/dbq_nosuchdb?" + options
		for _, verb := range []string{"stats", "migrate"} {
			o := u.run("--dsn", dsn, verb).fails(exitUnavailable, `the database "dbq_nosuchdb" does not exist`, "create it")
			if strings.Contains(o.err, "reached") || strings.Contains(o.err, "dbq migrate") {
				t.Errorf("%s: %s", scheme, o.err)
			}
		}
	}
	if dsn := os.Getenv("DBQ_TEST_POSTGRES18_DSN"); dsn != "" { // which refuses parameters only when it is connected to
		base, options, _ := strings.Cut(dsn, "?")
		cfg, err := url.Parse(base)
		check.OK(t, err)
		keywords := fmt.Sprintf("host=%s port=%s user=%s dbname='%s'", cfg.Hostname(), cfg.Port(), cfg.User.Username(),
			strings.Trim(cfg.Path, "/"))
		if password, has := cfg.User.Password(); has {
			keywords += " password='" + password + "'"
		}
		u.run("--dsn", keywords, "--prefix", "nosuch_", "stats").fails(exitNotMigrated, "dbq migrate")
		for _, mistyped := range []string{"sslmod=disable", "statement_timeout=soon", "shared_buffers=1GB"} {
			name, _, _ := strings.Cut(mistyped, "=")
			u.run("--dsn", base+"?"+mistyped+"&"+options, "stats").fails(exitUsage, "unusable DSN", name)
		}
	}
	u.write("text", strings.Repeat("this is text, no database\n", 100))
	u.run("--dsn", "sqlite:"+u.file("text"), "stats").fails(exitUsage, "text", "is not a SQLite database")
	if os.Geteuid() != 0 {
		u.run("--dsn", "own.db", "migrate").ok()
		check.OK(t, os.Chmod(u.file("own.db"), 0))
		u.run("--dsn", "own.db", "stats").fails(exitUnavailable, "permission denied")
	}
}
