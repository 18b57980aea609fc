//go:build unix

package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// TestJSONIsThatOfTheAPI checks that --json prints what the HTTP API answers, and that the API accepts a printed task,
// the limits and settings of a queue, and the definition of a schedule.
func TestJSONIsThatOfTheAPI(t *testing.T) {
	u := newUser(t)
	s := u.serve()
	const db, line = "/v1/db/default", `{"kind": "welcome", "payload": {"to": 42}, "reference": "r", "key": "ann",
		"priority": 2, "delay_seconds": 3600, "max_attempts": 3, "headers": {"a": "b"}, "unique": {"key": "k"}}`
	u.write("line", `{"queue": "mail", `+oneLine(line)[1:])
	id := u.run("enqueue", "--file", "line", "--json").one()["id"].(string)
	u.run("limit", "mail", "--rate", "10/30s", "--burst", "3", "--per-key-rate", "5/m", "--order", "skip").ok()
	u.run("queue", "set", "mail", "--lease", "90s", "--keep-poison", "forever", "--history", "none").ok()
	u.run("schedule", "put", "nightly", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "-q", "mail", "--payload", "p",
		"--header", "a=b", "--catch-up", "4", "--no-overlap", "--jitter", "90s").ok()

	task := u.run("show", id, "--json").one()
	limits := u.run("limit", "mail", "--json").one()
	queue := u.run("queue", "list", "--json").one()
	schedule := u.run("schedule", "show", "nightly", "--json").one()
	for path, printed := range map[string]any{
		"/tasks/" + id: task, "/queues/mail/limits": limits, "/queues/mail/settings": queue["settings"],
		"/schedules/nightly": schedule, "/queues": map[string]any{"queues": []any{queue}},
		"/stats": map[string]any{"queues": []any{u.run("stats", "--json").one()}},
	} {
		var answered any
		if s.call("GET", db+path, "", &answered); !reflect.DeepEqual(answered, printed) {
			t.Errorf("GET %s is %v, and --json prints %v", path, answered, printed)
		}
	}

	for _, name := range []string{"name", "next", "updated", "revision"} { // the status
		delete(schedule, name)
	}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"PATCH", "/queues/copy/limits", limits}, {"PATCH", "/queues/copy/settings", queue["settings"]},
		{"PUT", "/schedules/copy", schedule},
	} {
		text, err := json.Marshal(c.body)
		check.OK(t, err)
		var answered map[string]any
		s.call(c.method, db+c.path, string(text), &answered)
		for name, want := range c.body.(map[string]any) {
			if !reflect.DeepEqual(answered[name], want) {
				t.Errorf("%s %s: %s is %v, want %v", c.method, c.path, name, answered[name], want)
			}
		}
	}
	var added struct{ ID string }
	s.call("POST", db+"/queues/copy/tasks", line, &added)
	for name, got := range u.run("show", added.ID, "--json").one() {
		switch name {
		case "id", "queue", "fence", "created", "updated", "due": // they are of this task alone
		default:
			if !reflect.DeepEqual(got, task[name]) {
				t.Errorf("over HTTP, %s of the task is %v, and from a line %v", name, got, task[name])
			}
		}
	}
}
