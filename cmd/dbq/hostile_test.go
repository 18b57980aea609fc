//go:build unix

package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// hostile is text as a task, a row written by SQL, or a server may bring it: it moves the cursor, colors, forges
// lines, and turns text around.
const hostile = "x\x1b[31m\r\nfence       99\u202e\u200b\u2028\u009b\x7f\x07end"

// hostileDatabase has a row in every table whose every text is hostile, written by SQL.
func hostileDatabase(u *user) (task string) {
	u.t.Helper()
	task = u.run("enqueue", "-q", "q", "--payload", hostile, "--header", "k=v").id()
	u.run(sh("exit 1", "--until-empty", "--quiet")...)
	u.run("enqueue", "-q", "paused").id()
	u.run("queue", "pause", "paused", "--reason", "r").ok()
	db, err := sql.Open("sqlite", u.file("dbq.db"))
	if err != nil {
		u.t.Fatal(err)
	}
	defer db.Close()
	headers, err := json.Marshal(map[string]string{hostile: hostile})
	if err != nil {
		u.t.Fatal(err)
	}
	exec := func(text string, args ...any) {
		u.t.Helper()
		if r, err := db.ExecContext(u.t.Context(), text, args...); err != nil {
			u.t.Fatalf("%s: %v", text, err)
		} else if n, err := r.RowsAffected(); err != nil || n == 0 {
			u.t.Fatalf("%s: %d rows, %v", text, n, err)
		}
	}
	all := map[string]any{"h": hostile, "headers": string(headers)}
	named := func(names ...string) (out []any) {
		for _, n := range names {
			out = append(out, sql.Named(n, all[n]))
		}
		return out
	}
	exec(`UPDATE dbq_task SET queue = queue || :h, reference = :h || id, kind = :h, taken_by = :h, headers = :headers,
		result = CAST(:h AS BLOB)`, named("h", "headers")...)
	exec(`UPDATE dbq_attempt SET worker = :h, error = CAST(:h AS BLOB), queue = queue || :h`, named("h")...)
	exec(`UPDATE dbq_kv SET name = name || :h, value = json_set(value, '$.reason', :h, '$.by', :h)
	       WHERE namespace = 'pause'`,
		named("h")...)
	exec(`INSERT INTO dbq_kv (namespace, name, version, value, updated) SELECT 'worker', :h, 1,
		json_object('id', :h, 'queue', :h, 'state', :h, 'host', :h), updated
		FROM dbq_task LIMIT 1`, named("h")...)
	return task
}

func TestNothingHostileReachesTheTerminal(t *testing.T) {
	u := newUser(t)
	task := hostileDatabase(u)
	for _, line := range []string{
		"list", "list --state error", "stats", "queue list", "worker list", "show " + task, "wait --timeout 1ms " + task,
		"migrate", "enqueue -q q --payload x", "reject " + task,
	} {
		for _, format := range [][]string{nil, {"--json"}} {
			o := u.run(append(strings.Fields(line), format...)...)
			for _, text := range []string{o.out, o.err} {
				if !isSafe(text) {
					t.Errorf("%s %v prints %q", line, format, text)
				}
				for l := range strings.Lines(text) {
					if strings.HasPrefix(l, "fence       99") {
						t.Errorf("%s %v prints a forged line: %q", line, format, text)
					}
				}
			}
			if format != nil && o.code == exitOK && o.out != "" && !json.Valid([]byte(strings.Split(o.out, "\n")[0])) {
				t.Errorf("%s prints no JSON: %s", line, o.out)
			}
		}
	}
	for _, args := range [][]string{{"show", hostile}, {"list", "-q", hostile}, {hostile}, {"enqueue", "-q", hostile},
		{"--dsn", hostile + ".db", "stats"}, {"list", "--" + hostile},
		{"enqueue", "-q", "q", "--header", hostile + "=x"}, {"queue", "pause", hostile},
		{"worker", "stop", "no " + hostile}, {"list", "--state", hostile}} {
		o := u.run(args...)
		if !isSafe(o.err+o.out) || o.code == exitOK {
			t.Errorf("%q: exit code %d, prints %q", args, o.code, o.err+o.out)
		}
	}
	o := u.run(sh(fmt.Sprintf("printf '%s' >&2; exit 1", `\033[31m\rfence\n`), "--until-empty")...)
	if !isSafe(o.err) {
		t.Errorf("work prints %q", o.err)
	}
}
