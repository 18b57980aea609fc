//go:build unix

package main

import (
	"testing"
	"time"
)

func TestQueueVerbs(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "mail").id()
	if out := u.run("queue", "list").ok(); out != "" {
		t.Errorf("nothing is set, and it says %q", out)
	}
	u.run("queue", "pause", "mail", "--reason", "the server\x1b is down").has("paused mail")
	u.run("queue", "list").has("mail", "for ", "the server· is down")
	u.run("work", "-q", "mail", "--until-empty", "--", "true")
	u.run("show", id).has("CREATED")
	u.run("queue", "set", "mail", "--concurrency", "3", "--keep-completed", "7d", "--lease", "2m", "--history", "none").has("set mail")
	u.run("queue", "set", "mail", "--lease", "0").has("set mail")
	o := u.run("queue", "list", "--json")
	o.ok()
	if got := o.one(); got["settings"] != "--concurrency 3 --history none --keep-completed 168h0m0s" || got["paused"] != true {
		t.Errorf("got %v", got)
	}
	u.run("queue", "resume", "mail").has("resumed mail")

	u.run("queue").has("pause", "clean")
	u.run("queue", "pause").fails(exitUsage, "one queue's name")
	u.run("queue", "set", "mail").fails(exitUsage, "nothing to set")
	u.run("queue", "set", "mail", "--keep-poison", "soon").fails(exitUsage, "7d")
	u.run("queue", "set", "mail", "--history", "some").fails(exitUsage, "failures")
	u.run("queue", "set", "mail", "--lease", "48h").fails(exitUsage, "lease")
	u.run("queue", "pause", "").fails(exitUsage, "queue name")
}

func TestQueueClean(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "mail").id()
	u.run("work", "-q", "mail", "--until-empty", "--", "true").ok()
	u.run("queue", "clean", "mail").fails(exitUsage, "for ever")
	u.run("queue", "clean", "mail", "--keep-completed", "1h").has("0 tasks")
	time.Sleep(5 * time.Millisecond) // SQLite tells milliseconds
	u.run("queue", "clean", "mail", "--keep-completed", "1ms").has("1 task and")
	u.run("queue", "clean", "mail", "--keep-completed", "-1h").fails(exitUsage, "keeping")
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
