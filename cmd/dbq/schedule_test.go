//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// wantFields compares fields of a JSON document.
func wantFields(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %v, want %v: %v", what, name, got[name], value, got)
		}
	}
}

func TestSchedulePutAndShow(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	nightly := []string{"schedule", "put", "nightly", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "-q", "reports",
		"--kind", "k", "--key", "ann", "--payload", "p", "--priority", "3", "--max-attempts", "7", "--header", "a=b",
		"--catch-up", "4", "--no-overlap", "--jitter", "90s"}
	u.run(nightly...).has("nightly fires at ", "T02:30:00+0")
	want := map[string]any{"name": "nightly", "cron": "30 2 * * *", "zone": "Europe/Berlin", "queue": "reports",
		"kind": "k", "key": "ann", "payload": "p", "priority": 3.0, "max_attempts": 7.0, "catch_up": 4.0,
		"no_overlap": true, "jitter_seconds": 90.0, "paused": nil, "queue_paused": nil, "last": nil, "skipped": nil}
	for _, args := range [][]string{append(nightly, "--json"), {"schedule", "show", "nightly", "--json"},
		{"schedule", "list", "--json"}} {
		got := u.run(args...).one()
		wantFields(t, strings.Join(args[:2], " "), got, want)
		if next, err := time.Parse(time.RFC3339, got["next"].(string)); err != nil || next.Minute() != 30 {
			t.Errorf("it comes next at %v", got["next"])
		}
		if headers, _ := got["headers"].(map[string]any); headers["a"] != "b" {
			t.Errorf("the headers are %v", got["headers"])
		}
	}
	text := u.run("schedule", "show", "nightly").has("schedule    nightly\n", "when        30 2 * * * Europe/Berlin\n",
		"queue       reports\n", "kind        k\n", "key         ann\n", "payload     p\n",
		"next        fires at ", "then\n").out
	if n := strings.Count(text, " 02:30:00 CE"); n != 10 {
		t.Errorf("show has %d of the next ten times: %s", n, text)
	}
	u.run("schedule", "put", "x", "--cron", "@daily").fails(exitUsage, "--queue")
	u.run("schedule", "put", "x", "-q", "q", "--at", "soon").fails(exitUsage, "--at")
	u.run("schedule", "put", "x", "-q", "q", "--every", "1h", "--cron", "@daily").fails(exitUsage, "set one of")
	u.run("schedule", "show", "none").fails(exitNotFound, `no schedule "none"`)
}

func TestScheduleVerbs(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	if o := u.run("schedule", "list"); o.ok() != "" || !strings.Contains(o.err, "there are no schedules") {
		t.Errorf("without schedules: %q, %q", o.out, o.err)
	}
	if out := u.run("schedule", "list", "--json").ok(); out != "" {
		t.Errorf("without schedules, --json prints %q", out)
	}
	u.run("schedule", "put", "s", "--every", "1h", "-q", "q").has("s fires at ")
	u.run("schedule", "list").has("SCHEDULE", "s ", "every 1h", "fires at ")

	why := []string{"--reason", "too loud", "--by", "ann"}
	if out := u.run(append([]string{"schedule", "pause", "s"}, why...)...).ok(); out != "paused s\n" {
		t.Errorf("pause prints %q", out)
	}
	u.run("schedule", "list").has("paused by ann: too loud")
	u.run("schedule", "show", "s").has("next        paused by ann: too loud\n")
	wantFields(t, "pause", u.run(append([]string{"--json", "schedule", "pause", "s"}, why...)...).one(),
		map[string]any{"name": "s", "paused": true, "by": "ann", "reason": "too loud", "next": nil, "every_seconds": 3600.0})

	id := u.run("schedule", "run", "s").id()
	wantFields(t, "the task", u.task(id), map[string]any{"queue": "q", "state": "CREATED", "reference": nil})
	got := u.run("schedule", "run", "s", "--json").one()
	text, _ := got["task_id"].(string)
	if second, err := uuid.Parse(text); err != nil || len(got) != 1 || text == id {
		t.Errorf("run --json prints %v (%s, %v)", got, second, err)
	}

	got = u.run("schedule", "resume", "s", "--json").one()
	wantFields(t, "resume", got, map[string]any{"name": "s", "paused": nil, "by": nil, "reason": nil})
	if got["next"] == nil {
		t.Errorf("resumed, it has no next time: %v", got)
	}
	if out := u.run("schedule", "resume", "s").ok(); out != "resumed s\n" {
		t.Errorf("resume prints %q", out)
	}

	wantFields(t, "delete", u.run("schedule", "delete", "s", "--json").one(), map[string]any{"name": "s", "deleted": true})
	for _, verb := range []string{"delete", "pause", "resume", "run", "show"} {
		for _, json := range [][]string{nil, {"--json"}} {
			o := u.run(append([]string{"schedule", verb, "s"}, json...)...)
			if o.fails(exitNotFound, `no schedule "s"`); o.out != "" {
				t.Errorf("%s of a schedule that does not exist prints %q", verb, o.out)
			}
		}
	}
	u.run("schedule", "put", "s", "--every", "1h", "-q", "q").ok()
	if out := u.run("schedule", "delete", "s").ok(); out != "deleted s\n" {
		t.Errorf("delete prints %q", out)
	}
}

func TestSchedulePreview(t *testing.T) {
	u := newUser(t)
	lines := strings.Split(strings.TrimSpace(u.run("schedule", "preview", "--cron", "0 9 * * mon", "--zone",
		"Asia/Tokyo", "-n", "3").ok()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[2], "Mon ") || !strings.HasSuffix(lines[2], " 09:00:00 JST") {
		t.Errorf("preview prints %q", lines)
	}
	out := u.run("schedule", "preview", "--at", "2999-01-31T08:00:00Z", "--json").ok()
	if out != `{"times":["2999-01-31T08:00:00Z"]}`+"\n" {
		t.Errorf("preview --json prints %q", out)
	}
	u.run("schedule", "preview", "--cron", "0 0 31 2 *").fails(exitUsage, "no day matches")
}

func TestScheduleListFilter(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	for name, queue := range map[string]string{"app-a": "q", "app-b": "other", "web-a": "q"} {
		u.run("schedule", "put", name, "--every", "1h", "-q", queue).ok()
	}
	for flags, want := range map[string]string{
		"": "app-a app-b web-a", "-q q": "app-a web-a", "--name-prefix app-": "app-a app-b",
		"--queue q --name-prefix app-": "app-a",
		"--name-prefix pp":             "", "-q other --name-prefix web-": "",
	} {
		args := append([]string{"schedule", "list"}, strings.Fields(flags)...)
		var names []string
		for _, line := range u.run(append(args, "--json")...).jsonLines() {
			names = append(names, line["name"].(string))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("list %s has %q, want %q", flags, got, want)
		}
		o := u.run(args...)
		n, noted := strings.Count(o.ok(), "fires at"), strings.Contains(o.err, "no schedule matches")
		if n != len(names) || noted != (n == 0) {
			t.Errorf("list %s prints %d schedules, want %d: %s%s", flags, n, len(names), o.out, o.err)
		}
	}
}

// TestScheduleOfAPausedQueue: put and list say that the tasks wait.
func TestScheduleOfAPausedQueue(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	u.run("queue", "pause", "q", "--create").ok()
	put := []string{"schedule", "put", "s", "--every", "1h", "-q", "q"}
	for _, args := range [][]string{put, append(put, "--json")} {
		if o := u.run(args...); o.code != 0 || !strings.Contains(o.err, "queue q is paused") ||
			!strings.Contains(o.err, "dbq queue resume q") {
			t.Errorf("%v: exit code %d, stderr %q", args, o.code, o.err)
		}
	}
	u.run("schedule", "put", "t", "--every", "1h", "-q", "r").ok()
	u.run("schedule", "list").has(" q (paused) ", " r ")
	u.run("schedule", "show", "s").has("queue       q (paused)\n")
	for name, want := range map[string]any{"s": true, "t": nil} {
		wantFields(t, name, u.run("schedule", "show", name, "--json").one(), map[string]any{"queue_paused": want})
		wantFields(t, name, u.run("schedule", "list", "--name-prefix", name, "--json").one(),
			map[string]any{"queue_paused": want})
	}
	u.run("queue", "resume", "q").ok()
	if o := u.run(put...); o.err != "" || strings.Contains(u.run("schedule", "list").ok(), "paused") {
		t.Errorf("after the pause, put notes %q", o.err)
	}
}
