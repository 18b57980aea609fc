//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
)

func TestQueueVerbs(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "mail").id()
	if got := strings.Fields(u.run("queue", "list").ok()); fmt.Sprint(got) != "[QUEUE PAUSED SETTINGS LIMITS mail - - -]" {
		t.Errorf("nothing is set, and it says %q", got)
	}
	u.run("queue", "pause", "mail", "--reason", "the server\u202e is down", "--by", "ann").has("paused mail")
	u.run("queue", "list").has("mail", "for ", `the server\u202e is down`)
	u.run("stats", "-q", "mail").has("1 waiting. Queue mail is paused by ann: ", `the server\u202e is down`)
	if got := u.run("stats", "-q", "mail", "--json").one(); got["queue"] != "mail" { // and nothing else
		t.Errorf("got %v", got)
	}
	u.run("work", "-q", "mail", "--until-empty", "--", "true").fails(exitFailed, "paused")
	u.run("show", id).has("CREATED")
	u.run("queue", "set", "mail", "--concurrency", "3", "--keep-completed", "7d", "--lease", "2m",
		"--history", "none").has("set mail")
	u.run("queue", "set", "mail", "--lease", "0").has("set mail")
	o := u.run("queue", "list", "--json")
	if got := o.one(); fmt.Sprint(got["settings"]) != "map[concurrency:3 history:none keep_completed_seconds:604800]" ||
		got["paused"] != true || got["by"] != "ann" {
		t.Errorf("got %v", got)
	}
	u.run("queue", "resume", "mail").has("resumed mail")
	u.run("queue", "set", "mail", "--dead-letter", "alerts").has("set mail")
	u.run("queue", "list").has("--dead-letter alerts")
	u.run("queue", "set", "mail", "--dead-letter", "mail").fails(exitUsage, "its own dead-letter queue")
	u.run("queue", "set", "mail", "--dead-letter", "").has("set mail")

	u.run("queue").has("pause", "clean")
	u.run("queue", "pause").fails(exitUsage, "queue's name")
	u.run("queue", "set", "mail").fails(exitUsage, "nothing to set")
	u.run("queue", "set", "kept", "--create", "--keep-completed", "forever", "--keep-attempts", "7d").has("set kept")
	u.run("queue", "list").has("--keep-completed forever --keep-attempts 7d")
	u.run("queue", "clean", "kept", "--keep-completed", "forever").fails(exitUsage, "remove nothing")
	u.run("queue", "set", "mail", "--keep-poison", "soon").fails(exitUsage, "7d")
	u.run("queue", "set", "mail", "--history", "some").fails(exitUsage, "failures")
	u.run("queue", "set", "mail", "--lease", "48h").fails(exitUsage, "lease")
	u.run("queue", "pause", "").fails(exitUsage, "queue name")
	u.run("queue", "pause", "mail", "--reason", "\x1b").fails(exitUsage, "control character")
}

// A name that is mistyped must not look like an empty queue.
func TestUnknownQueueIsRefused(t *testing.T) {
	u := newUser(t)
	for _, queue := range []string{"mail", "done"} {
		u.run("enqueue", "-q", queue).id()
	}
	u.run("work", "-q", "done", "--until-empty", "--", "true").ok()
	u.run("purge", "--all", "--yes").ok() // only its statistics know the queue done
	u.run("queue", "pause", "mial").fails(exitNotFound, `"mial"`, "--create")
	u.run("queue", "resume", "mial").fails(exitNotFound, `"mial"`)
	u.run("queue", "set", "mial", "--lease", "1m").fails(exitNotFound, `"mial"`, "--create")
	u.run("queue", "pause", "set", "--create").has("paused set")
	u.run("queue", "set", "set", "--lease", "1m").has("set set")
	u.run("schedule", "put", "nightly", "--cron", "@daily", "--queue", "later").ok()
	lines := []string{
		"list -q %s --state poison", "stats -q %s", "stats --over 1h -q %s", "worker list -q %s", "schedule list -q %s",
		"audit list -q %s --action nothing", "queue clean %s --keep-completed 1h", "reenqueue -q %s", "purge -q %s --yes",
		"reenqueue -q %s --dry-run",
	}
	for _, line := range lines {
		u.run(strings.Fields(fmt.Sprintf(line, "mial"))...).fails(exitNotFound, `"mial"`, "later, mail, set")
		for _, queue := range []string{"mail", "done", "set", "later"} {
			u.run(strings.Fields(fmt.Sprintf(line, queue))...).ok()
		}
	}
	o := u.run("queue", "list", "--json")
	o.ok()
	var names []any
	for _, q := range o.jsonLines() {
		names = append(names, q["queue"])
	}
	if fmt.Sprint(names) != "[later mail set]" {
		t.Errorf("the queues are %v", names)
	}
}

func TestQueueClean(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "mail").id()
	u.run("work", "-q", "mail", "--until-empty", "--", "true").ok()
	u.run("queue", "clean", "mail").fails(exitUsage, "remove nothing")
	u.run("queue", "clean", "mail", "--keep-completed", "1h").has("0 tasks")
	time.Sleep(5 * time.Millisecond) // SQLite has milliseconds
	u.run("queue", "clean", "mail", "--keep-completed", "1ms").has("1 task and")
	u.run("queue", "clean", "mail", "--keep-completed", "-1h").fails(exitUsage, "negative")
}

func TestWorkerVerbs(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "mail").id()
	if out := u.run("worker", "list").ok(); out != "" {
		t.Errorf("nobody works, and it says %q", out)
	}
	u.run("worker", "stop", "nobody").fails(exitNotFound, "nobody")
	u.run("worker", "pause").fails(exitUsage, "dbq worker list")
}

// obeys has an operator see a worker process, pause, resume and stop it, and set its queue.
func obeys(u *user, report string) {
	u.t.Helper()
	b := u.start(sh(`echo "$DBQ_ATTEMPT"`, "--id", "web/1", "--report-interval", report)...)
	b.err.waitFor(u.t, "as web/1")
	is := func(state string) func() bool {
		return func() bool {
			o := u.run("worker", "list", "--queue", "q", "--json")
			if o.code == exitNotFound { // no program has used the queue yet
				return false
			}
			o.ok()
			ws := o.jsonLines()
			return len(ws) == 1 && ws[0]["id"] == "web/1" && ws[0]["dead"] == false && ws[0]["state"] == state
		}
	}
	check.Eventually(u.t, "the worker is listed", is("running"))
	u.run("worker", "pause", "web/1").has("sent pause to web/1")
	check.Eventually(u.t, "the worker is paused", is("paused"))
	id := u.run("enqueue", "-q", "q").id()
	time.Sleep(200 * time.Millisecond) // longer than it takes to look
	if got := u.task(id)["state"]; got != "CREATED" {
		u.t.Errorf("a paused worker took a task: it is %v", got)
	}
	u.run("worker", "resume", "web/1").has("sent resume to web/1")
	check.Eventually(u.t, "the worker runs", is("running"))
	check.Eventually(u.t, "the task is done", func() bool { return u.task(id)["state"] == "COMPLETED" })
	u.run("worker", "list").has("web/1", "running")
	u.run("queue", "set", "q", "--concurrency", "7").ok()
	check.Eventually(u.t, "the worker follows the settings", func() bool {
		return u.run("worker", "list", "--json").one()["concurrency"] == 7.0
	})
	u.run("worker", "pause", "web/1").ok()
	check.Eventually(u.t, "the worker is paused again", is("paused"))
	u.run("worker", "stop", "web/1").ok()
	b.wait().ok()
	if out := u.run("worker", "list").ok(); out != "" {
		u.t.Errorf("the worker has stopped, and is listed: %s", out)
	}
}

// A worker that gets no processor for three intervals is not alive, and commands to it are refused:
// --report-interval is long enough for a busy machine.
func TestWorkObeysOperators(t *testing.T) { obeys(newUser(t), "1s") }

// With --until-empty it would go on for as long as others hold tasks.
func TestStoppedWorkIsNotRestarted(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "q").id()
	other := u.start(sh(hang, "--drain", "100ms")...)
	pids := u.hangs()
	b := u.start(sh("true", "--id", "w", "--report-interval", "50ms", "--until-empty")...)
	c, err := dbq.Open(t.Context(), "sqlite:"+u.file("dbq.db"))
	check.OK(t, err)
	defer c.Close()
	// The worker is listed for moments only. A command that comes after its last report is executed as well.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err = dbq.ErrNotFound; errors.Is(err, dbq.ErrNotFound); {
		err = admin.New(c).CommandWorker(ctx, "w", dbq.CommandStop)
	}
	check.OK(t, err)
	b.wait().ok()
	other.stops()
	u.gone(pids)
}

// The notification arrives long before the next report interval.
func TestWorkIsNotifiedOnPostgreSQL(t *testing.T) {
	dsn := cmp.Or(os.Getenv("DBQ_TEST_POSTGRES18_DSN"), os.Getenv("DBQ_TEST_POSTGRES_DSN"))
	if dsn == "" {
		t.Skip("DBQ_TEST_POSTGRES18_DSN is not set")
	}
	prefix := fmt.Sprintf("told%d_", os.Getpid())
	t.Cleanup(func() {
		if err := dbq.DropTables(context.WithoutCancel(t.Context()), dsn, dbq.WithPrefix(prefix)); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	u := newUser(t)
	u.env = append(u.env, "DBQ_DSN="+dsn)
	u.flags = []string{"--prefix", prefix}
	u.run("migrate").ok()
	obeys(u, "1h")
}

// Kinds that a live worker has no handler for are in the list of workers, and below the counts.
func TestKindsWithoutAHandlerAreListed(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "mail", "--kind", "sms").id()
	c, err := dbq.Open(t.Context(), "sqlite:"+u.file("dbq.db"))
	check.OK(t, err)
	defer c.Close()
	w := control.Worker{ID: "old", Queue: "mail", State: control.WorkerRunning, NoHandler: []string{"fax", "sms"}}
	check.OK(t, access.Of(c).Control.Announce(t.Context(), w, time.Minute))
	u.run("worker", "list").has(`running, no handler for "fax", "sms"`)
	u.run("stats").has(`no handler in workers of queue "mail": "fax", "sms"`)
}
