//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// noChanges wants a list without entries, and a note on it.
func (u *user) noChanges(flags ...string) {
	u.t.Helper()
	o := u.run(append([]string{"audit", "list"}, flags...)...)
	if o.ok() != "" || !strings.Contains(o.err, "no changes") {
		u.t.Errorf("with %q: stdout %q, stderr %q", flags, o.out, o.err)
	}
}

func TestAuditList(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "mail").id()
	u.noChanges()
	u.run("reject", id, "--reason", "wrong address").ok()
	u.run("queue", "pause", "other", "--create").ok()
	u.run("audit", "list").has("AGE", "WHO", "PROGRAM", "reject", id, "wrong address", "cli", "pause queue", "other")
	newest := u.run("audit", "list", "--limit", "1", "--json")
	entry := newest.one()
	if entry["action"] != "pause queue" || entry["queue"] != "other" || entry["program"] != "cli" {
		t.Errorf("the newest entry is %v", entry)
	}
	if o := u.run("audit", "list", "--limit", "1"); !strings.Contains(o.err, "--before "+entry["id"].(string)) {
		t.Errorf("the note of the next page is missing: %s", o.err)
	}
	for _, flags := range [][]string{{"--before", entry["id"].(string)}, {"--queue", "mail"}, {"--action", "reject"},
		{"--task", id}, {"--task", id, "--within", "1h"}} {
		o := u.run(append([]string{"audit", "list", "--json"}, flags...)...)
		if got := o.one(); got["action"] != "reject" || got["task_id"] != id || got["reason"] != "wrong address" {
			t.Errorf("with %v: got %v", flags, got)
		}
	}
	u.noChanges("--by", "nobody")
	u.run("audit", "list", "--task", "7").fails(exitUsage, `7`)
	u.run("audit", "list", "--limit", "0").fails(exitUsage, "--limit")
	u.run("audit", "list", "mail").fails(exitUsage)
}

// Each command that the audit records has --reason and --by.
func TestAuditHasReasonsAndOperators(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	worker := u.start("work", "-q", "mail", "--id", "w", "--report-interval", "1s", "--", "true")
	check.Eventually(t, "the worker is listed", func() bool { return u.run("worker", "list").ok() != "" })
	token := ""
	for _, command := range []string{
		"queue pause mail", "queue resume mail", "queue set mail --max-checkout 3", "limit mail --concurrency 2",
		"worker pause w", "worker resume w", "worker stop w", "reject " + id, "purge --queue q --yes",
		"schedule put nightly --cron @daily --queue mail", "schedule pause nightly", "schedule resume nightly",
		"schedule run nightly", "schedule delete nightly", "reject --all", "queue clean mail --keep-parked 1us",
		"token create t --role viewer --json", "token revoke ", "audit clean --keep 1us --yes",
	} {
		if command == "token revoke " {
			command += token
		}
		o := u.run(append(strings.Fields(command), "--reason", "why "+command, "--by", "ann")...)
		if o.ok(); strings.HasPrefix(command, "token create") {
			token = o.one()["id"].(string)
		}
		got := u.run("audit", "list", "--json", "--limit", "1").one()
		if got["reason"] != "why "+command || got["by"] != "ann" {
			t.Errorf("%s: the audit has %v", command, got)
		}
	}
	worker.wait().ok()
	u.run("queue", "pause", "mail", "--by", "").fails(exitUsage, "--by is empty")
}

func TestAuditClean(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	u.run("queue", "pause", "mail", "--create").ok()
	u.run("audit", "clean", "--yes").fails(exitUsage, "--keep is missing")
	u.run("audit", "clean", "--keep", "soon", "--yes").fails(exitUsage, "--keep")
	u.feed("n\n", "audit", "clean", "--keep", "1us").fails(exitUsage, "entries of the audit", "--yes")
	u.run("audit", "clean", "--keep", "1h", "--yes").has("removed 0 entries")
	u.run("audit", "list", "--action", "pause queue").has("mail")
	o := u.run("audit", "clean", "--keep", "1us", "--yes", "--json")
	if got := o.one(); got["removed"] == 0.0 {
		t.Errorf("got %v, want entries removed", got)
	}
	u.run("audit", "list").has("clean audit") // the removal is recorded
	u.noChanges("--action", "pause queue")
}
