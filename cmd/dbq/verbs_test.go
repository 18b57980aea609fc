//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

func TestEnqueueMakesTheDefaultFile(t *testing.T) {
	u := newUser(t)
	u.run("stats").fails(exitNotMigrated, "dbq.db", "dbq enqueue")
	id := u.run("enqueue", "--queue", "mail", "--payload", "hello", "--reference", "r-1", "--kind", "k", "--priority", "3",
		"--max-attempts", "7", "--header", "trace=abc", "--header", "empty=").id()
	u.run("show", id).has("mail", "r-1", "CREATED", "hello", "trace=abc", "empty=", "5 bytes", "0 of 7")
	got := u.task(id)
	for name, want := range map[string]any{"payload": "hello", "queue": "mail", "kind": "k", "priority": 3.0,
		"state":        "CREATED",
		"max_attempts": 7.0, "attempt": 0.0, "reference": "r-1"} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	u.run("enqueue", "--queue", "mail", "--reference", "r-1").fails(exitState, "reference", id)
	o := u.run("enqueue", "--queue", "mail", "--json")
	if o.one()["id"] == nil {
		t.Errorf("no id in %s", o.out)
	}
}

func TestEnqueuePayloads(t *testing.T) {
	u := newUser(t)
	u.write("p.bin", "a\x00\xffz")
	id := u.run("enqueue", "-q", "q", "--payload-file", "p.bin").id()
	if got := u.run("show", id, "--payload").ok(); got != "a\x00\xffz" {
		t.Errorf("payload %q", got)
	}
	if got := u.task(id)["payload_base64"]; got != "YQD/eg==" {
		t.Errorf("payload_base64 %v", got)
	}
	u.run("show", id).has("61 00 ff 7a", "4 bytes")
	id = u.feed("from stdin\n", "enqueue", "-q", "q", "--payload-file", "-").id()
	if got := u.run("show", id, "--payload").ok(); got != "from stdin\n" {
		t.Errorf("payload %q", got)
	}
	id = u.run("enqueue", "-q", "q").id()
	u.run("show", id).has("payload     none")
	id = u.run("enqueue", "-q", "q", "--payload", "").id()
	u.run("show", id).has("payload     0 bytes")
	id = u.run("enqueue", "-q", "q", "--payload", "\x1b[31mred").id()
	if o := u.run("show", id); strings.Contains(o.ok(), "\x1b") {
		t.Errorf("an escape sequence reaches the terminal: %q", o.out)
	}
}

func TestEnqueueTimes(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q", "--delay", "2h").id()
	u.run("show", id).has("due in 1h59m")
	id = u.run("enqueue", "-q", "q", "--run-at", "2999-01-31T09:00:00+01:00").id()
	if got := u.task(id)["due"]; got != "2999-01-31T08:00:00Z" {
		t.Errorf("due %v", got)
	}
	u.run("enqueue", "-q", "q", "--run-at", "tomorrow").fails(exitUsage, "2030-01-31")
	u.run("enqueue", "-q", "q", "--run-at", "2999-01-31T09:00:00Z", "--delay", "1s").
		fails(exitUsage, "--delay", "--run-at")
}

func TestEnqueueLines(t *testing.T) {
	u := newUser(t)
	var in strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&in, "{\"payload\": \"%d\", \"reference\": \"r%d\"}\n", i, i%2400)
	}
	u.feed(in.String(), "enqueue", "--queue", "n", "--lines").has("2400 tasks enqueued, 100 already there")
	u.write("lines", `{"queue":"a","payload":{"to": 42},"priority":2,"delay_seconds":3600,"headers":{"x":"y"}}

{"queue":"b","payload_base64":"/w==","max_attempts":3,"kind":"own"}
`)
	o := u.run("enqueue", "--file", "lines", "--json", "--kind", "common", "--header", "all=1")
	o.ok()
	lines := o.jsonLines()
	if len(lines) != 2 || lines[0]["line"] != 1.0 || lines[1]["line"] != 3.0 || lines[1]["duplicate"] != nil {
		t.Fatalf("answers %v", lines)
	}
	first, second := u.task(lines[0]["id"].(string)), u.task(lines[1]["id"].(string))
	if first["payload"] != `{"to": 42}` || first["kind"] != "common" ||
		fmt.Sprint(first["headers"]) != "map[all:1 x:y]" || first["queue"] != "a" {
		t.Errorf("first %v", first)
	}
	if second["payload_base64"] != "/w==" || second["kind"] != "own" || second["max_attempts"] != 3.0 ||
		second["queue"] != "b" {
		t.Errorf("second %v", second)
	}
}

func TestEnqueueLinesNamesTheInvalidLine(t *testing.T) {
	u := newUser(t)
	good := "{\"queue\":\"q\"}\n"
	for bad, says := range map[string]string{
		`{"queue":"q","payloda":1}`:          `"payloda"`,
		`{"queue":"q"`:                       "is incomplete",
		`[1]`:                                "array",
		`{"queue":"q"} {}`:                   "text after",
		`{}`:                                 "--queue",
		`{"queue":"q","priority":77}`:        "77",
		`{"queue":"q","priority":"x"}`:       ": priority cannot be a JSON string",
		`{"queue":"q","unique":{"key":1}}`:   ": unique.key cannot be a JSON number",
		`{"queue":"q","run_at":"then"}`:      "a time",
		`{"queue":"q","delay_seconds":"1s"}`: "number of seconds",
		`{"queue":"q","id":"7"}`:             "UUID",
		`{"queue":"q","id":"urn:uuix:6ba7b810-9dad-11d1-80b4-00c04fd430c8"}`: "the id is not a UUID",
		`{"queue":"q","payload_base64":"%"}`:                                 "base64",
		`{"queue":"q","payload":1,"payload_base64":"AA=="}`:                  "both",
	} {
		u.feed(good+good+"\n"+bad+"\n"+good, "enqueue", "--lines").fails(exitUsage, "line 4", says, "2 tasks enqueued")
	}
	u.run("enqueue", "--file", "nope").fails(exitUsage, "--file")
	u.feed(`{"queue":"z"}
{"queue":"y"}
{"queue":"a","priority":-1}
{"queue":"z"}`, "enqueue", "--lines").fails(exitUsage, "line 3", "2 tasks enqueued")
	u.run("enqueue", "--lines", "--payload", "x").fails(exitUsage, "--lines")
}

func TestMigrate(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "own.db").has("created", "own.db", "version")
	u.run("migrate", "--dsn", "sqlite:"+u.file("own.db")).has("already")
	u.run("stats", "--dsn", "sqlite:"+u.file("own.db")).ok()
	if o := u.run("migrate", "--dsn", "own.db", "--json"); o.one()["from"] != o.one()["to"] {
		t.Errorf("%s", o.out)
	}
	u.run("migrate", "--print").has("CREATE TABLE", "dbq_task")
	u.run("migrate", "--print", "--dialect", "postgres", "--schema", "jobs", "--prefix", "x_").
		has("CREATE TABLE", "jobs.x_task")
	u.run("migrate", "--print", "--dialect", "abc").fails(exitUsage, "without this dialect", "sqlite")
	u.run("migrate", "--dialect", "sqlite").fails(exitUsage, "--print")
	u.run("enqueue", "-q", "q", "--dsn", "own.db", "--prefix", "other_").fails(exitNotMigrated, "dbq migrate")
}

func TestListPages(t *testing.T) {
	u := newUser(t)
	u.feed(strings.Repeat("{\"queue\":\"q\",\"kind\":\"k\"}\n", 7)+strings.Repeat("{\"queue\":\"other\"}\n", 2),
		"enqueue", "--lines").ok()
	var seen []string
	after := []string{}
	for range 10 {
		o := u.run(append([]string{"list", "-q", "q", "--limit", "3", "--json"}, after...)...)
		o.ok()
		page := o.jsonLines()
		for _, task := range page {
			seen = append(seen, task["id"].(string))
		}
		if len(page) < 3 {
			break
		}
		after = []string{"--after", seen[len(seen)-1]}
	}
	if len(seen) != 7 {
		t.Errorf("%d tasks over all pages, want 7: %v", len(seen), seen)
	}
	o := u.run("list", "-q", "q", "--limit", "3")
	if !strings.Contains(o.err, "--after "+seen[2]) {
		t.Errorf("the end does not say how to go on: %q", o.err)
	}
	lines := strings.Split(o.ok(), "\n")
	column := strings.Index(lines[0], "STATE")
	for _, l := range lines[1:4] {
		if strings.Index(l, "CREATED") != column {
			t.Errorf("the columns are not aligned:\n%s", o.out)
		}
	}
	u.run("list", "--kind", "k", "--state", "created,error", "--reference", "none").ok()
	u.run("list", "--state", "sleeping").fails(exitUsage, "CREATED")
	u.run("list", "--limit", "0").fails(exitUsage, "--limit")
	u.run("list", "--after", "x").fails(exitUsage, "--after")
	if o := u.run("list", "-q", "q", "--state", "poison"); o.ok() != "" || o.err != "no tasks\n" {
		t.Errorf("an empty list: %q, %q", o.out, o.err)
	}
}

func TestStats(t *testing.T) {
	u := newUser(t)
	u.feed(strings.Repeat(`{"queue":"q"}`+"\n", 12)+`{"queue":"later","delay_seconds":3600}`, "enqueue", "--lines").ok()
	u.run("stats").has("QUEUE", "CREATED", "POISON", "LAG", "later", "12")
	u.run("queue", "pause", "q").ok()
	u.run("stats").has("tasks in the archive 0, entries of the audit 1")
	o := u.run("stats", "--json", "--queue", "q")
	q := o.one()
	if q["queue"] != "q" || q["due"] != 12.0 || q["count"].(map[string]any)["CREATED"] != 12.0 {
		t.Errorf("%v", q)
	}
}

func TestStatsOverTime(t *testing.T) {
	u := newUser(t)
	u.feed(strings.Repeat("{\"queue\":\"q\"}\n", 5), "enqueue", "--lines").ok()
	if o := u.run("stats", "--over", "1h"); o.ok() != "" {
		t.Errorf("statistics before a worker has run: %q", o.out)
	}
	u.run("work", "--queue", "q", "--until-empty", "--", "true").ok()
	u.run("stats", "--over=1h").has("QUEUE", "q", "5", "@")
	u.run("stats", "--over", "7d", "--period=6h", "-q", "q").has("TIME", "LATENCY", "5", "####################")
	lines := strings.Split(strings.TrimSpace(u.run("stats", "--over", "10m", "--json", "--queue", "q").ok()), "\n")
	sum := 0.0
	for _, line := range lines {
		var p map[string]any
		check.OK(t, json.Unmarshal([]byte(line), &p))
		sum += p["completed"].(float64)
		if none := p["samples"] == 0.0; (p["enqueued"] == nil) != none || (p["due"] == nil) != none {
			t.Errorf("numbers that nobody has counted: %s", line)
		}
	}
	if len(lines) != 11 || sum != 5 {
		t.Errorf("%d lines with %v completed tasks", len(lines), sum)
	}
	u.run("stats", "--period", "1m").fails(exitUsage, "--over")
	u.run("stats", "--over", "1h", "--exact").fails(exitUsage, "--exact")
	u.run("stats", "--over", "1h", "--period", "90s").fails(exitUsage, "minute")
	u.run("stats", "--over", "7d", "--period", "1m").fails(exitUsage, "period")
	u.run("queue", "set", "q", "--no-statistics").ok()
	u.run("queue", "list").has("--no-statistics")
}

// A number that no sample has counted is not 0.
func TestUnsampledNumbersAreUnknown(t *testing.T) {
	t.Parallel()
	none, some := admin.Point{Completed: 5}, admin.Point{Completed: 5, Samples: 1, Enqueued: 3, Due: 2}
	for _, c := range []struct {
		points        []admin.Point
		enqueued, due string
	}{{[]admin.Point{none}, "-", "-"}, {[]admin.Point{some, none}, "3", "2"}} {
		queue := admin.QueueSeries{Queue: "q", Points: c.points}
		if got := seriesListing.row(queue, time.Time{})[1]; got != c.enqueued {
			t.Errorf("%s tasks were enqueued, want %s", got, c.enqueued)
		}
		row := pointListing.row(pointsOf([]admin.QueueSeries{queue})[0], time.Time{})
		if row[1] != c.enqueued || row[5] != c.due {
			t.Errorf("the row is %v, want %s enqueued and %s due", row, c.enqueued, c.due)
		}
	}
}

func TestOperate(t *testing.T) {
	u := newUser(t)
	var ids []string
	for range 3 {
		ids = append(ids, u.run("enqueue", "-q", "q").id())
	}
	id := ids[0]
	for _, step := range []struct{ verb, then string }{
		{"reject", "ERROR"}, {"reenqueue", "CREATED"}, {"reject", "ERROR"}, {"quarantine", "POISON"}, {"restore", "ERROR"},
		{"quarantine", "POISON"}, {"reenqueue", "CREATED"}, {"reject", "ERROR"},
	} {
		u.run(step.verb, id).has("1 task ")
		if got := u.task(id)["state"]; got != step.then {
			t.Fatalf("%s made it %v, want %s", step.verb, got, step.then)
		}
	}
	u.run("reject", id).fails(exitState, "CREATED", id)
	u.run("revoke", id).fails(exitState, "PROCESSING")
	u.run("reenqueue", "01a1fe08-d809-723f-9731-4ea7dcff52a9").fails(exitNotFound, "not found")
	u.run("reject", id, ids[1], ids[2]).fails(exitState, "2 of 3")
	o := u.run("reject", ids[1], "01a1fe08-d809-723f-9731-4ea7dcff52a9", "--json")
	if got := o.jsonLines()[0]; got["changed"] != 0.0 || len(got["failed"].([]any)) != 2 || o.code != exitState {
		t.Errorf("%v, exit code %d", got, o.code)
	}
	if by := u.task(id)["result"]; by != "rejected by "+operatorName() {
		t.Errorf("the task keeps %q, want the operator's name", by)
	}
	u.run("quarantine", id, "--by", "anna", "--reason", "wrong address").ok()
	u.run("show", id).has("quarantined by anna: wrong address")
	u.run("delete", id).has("1 task deleted")
	u.run("show", id).fails(exitNotFound, id)
	u.run("purge", id, "--reason", "two\nlines").fails(exitUsage, "control character")
}

func TestOperateByFilter(t *testing.T) {
	u := newUser(t)
	u.feed(strings.Repeat("{\"queue\":\"q\"}\n", 5)+"{\"queue\":\"other\"}\n", "enqueue", "--lines").ok()
	for _, tr := range state.ByOperator() {
		u.run(string(tr.Event)).fails(exitUsage, "--all")
	}
	o := u.run("reject", "-q", "q", "--limit", "2")
	if o.has("2 tasks rejected"); !strings.Contains(o.err, "limit of 2") {
		t.Errorf("it does not say that there may be more: %q", o.err)
	}
	if got := u.run("reject", "--all", "--json").one(); got["changed"] != 4.0 || got["event"] != "reject" {
		t.Errorf("%v", got)
	}
	u.run("reject", "--all", "-q", "q").fails(exitUsage, "--all")
	u.run("reject", "--all", "01a1fe08-d809-723f-9731-4ea7dcff52a9").fails(exitUsage, "not both")
	u.run("reenqueue", "--state", "completed").fails(exitUsage, "ERROR or POISON", "COMPLETED")
	u.run("purge", "-q", "q").fails(exitUsage, "--yes")
	u.run("purge", "-q", "q", "--parked", "--yes").has("5 tasks deleted")
	u.run("reenqueue", "--parked", "--limit", "0").fails(exitUsage, "--limit")
	u.run("reenqueue", "--parked", "--dry-run").has("1 task would be made due again")
	for _, none := range []string{"0", "0s", "1us"} { // it would select every task
		u.run("reenqueue", "--parked", "--entered-within", none, "--dry-run").fails(exitUsage, "must be at least")
	}
	got := u.run("reenqueue", "--parked", "--entered-within", "1h", "--dry-run", "--json").one()
	if got["changed"] != 1.0 || got["dry_run"] != true {
		t.Errorf("a dry run printed %v", got)
	}
	u.run("reenqueue", "--dry-run", "01a1fe08-d809-723f-9731-4ea7dcff52a9").fails(exitUsage, "give no ids")
	u.run("reenqueue", "--cancelled", "--not-cancelled").fails(exitUsage, "exclude each other")
	u.run("reenqueue", "--parked").has("1 task made due again")
}

func TestWait(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q", "--payload", "6*7").id()
	u.run("wait", id, "--timeout", "50ms").fails(exitFailed, "CREATED")
	u.run("work", "-q", "q", "--until-empty", "--quiet", "--", "sh", "-c", "echo $(($(cat)))").ok()
	if got := u.run("wait", id).ok(); got != "42\n" {
		t.Errorf("result %q", got)
	}
	bad := u.run("enqueue", "-q", "q").id()
	u.run("reject", bad).ok()
	u.run("wait", bad).fails(exitFailed, "ERROR, parked")
	u.run("wait", "01a1fe08-d809-723f-9731-4ea7dcff52a9").fails(exitNotFound)
}

func TestHelpCoversExitCodesAndExamples(t *testing.T) {
	u := newUser(t)
	help := u.run("help").ok()
	for code := range map[int]bool{exitFailed: true, exitUsage: true, exitNotFound: true, exitState: true,
		exitUnavailable: true,
		exitNotMigrated: true, exitMayHappened: true, exitBroken: true, exitInterrupted: true} {
		if !strings.Contains(help, fmt.Sprintf("\n  %-4d ", code)) {
			t.Errorf("dbq help does not explain exit code %d", code)
		}
	}
	root := newRoot(&app{})
	for _, cmd := range root.Commands() {
		if cmd.Hidden || cmd.GroupID == "" {
			continue
		}
		u.run(cmd.Name(), "--help").has("Examples:", "dbq "+cmd.Name(), "--json")
	}
	for _, tr := range state.ByOperator() {
		if v := operatorVerbs[tr.Event]; v.does == "" || v.note == "" || v.example == "" {
			t.Errorf("the event %s of the state table lacks words in operatorVerbs", tr.Event)
		}
	}
	u.run("version").has("dbq ", "sqlite", "oracle: the Oracle dialect has not yet been run against a server\n")
	if v := u.run("version", "--json").one(); v["version"] == nil {
		t.Errorf("%v", v)
	}
	u.run("completion", "bash").has("dbq")
}
