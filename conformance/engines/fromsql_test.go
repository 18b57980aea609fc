//go:build unix

package engines

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// fromSQL is tables of their own, and the statements for them in docs/enqueue-from-sql.md.
type fromSQL struct {
	t       *testing.T
	c       *dbq.Client
	dsn     string
	tables  string
	page    string
	simple  string // the first statement: a transaction with a task of the reference "order 4711"
	all     string // the second: a task with all columns
	refused string // the column of the table of refusals
}

// familiesFromSQL are the headings of the page's sections by their drivers, and the columns of its table of refusals.
var familiesFromSQL = map[string]struct{ heading, column string }{
	"":      {"SQLite", "SQLite"},
	"pgx":   {"PostgreSQL", "PostgreSQL"},
	"mysql": {"MySQL and MariaDB", "MySQL, MariaDB"},
}

// onFamiliesFromSQL runs f on SQLite and on each server that the environment names.
func onFamiliesFromSQL(t *testing.T, f func(f *fromSQL)) {
	t.Helper()
	t.Parallel()
	page, err := os.ReadFile("../../docs/enqueue-from-sql.md")
	check.OK(t, err)
	for _, target := range present() {
		family, known := familiesFromSQL[target.driver]
		if !known || target.name == "pgbouncer" {
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			s := &fromSQL{t: t, dsn: os.Getenv(target.variable()), refused: family.column}
			if target.file != nil {
				s.dsn = target.file(t.TempDir())
			}
			s.tables = ownPrefix(t, s.dsn)
			s.page = strings.ReplaceAll(string(page), "dbq_", s.tables)
			_, section, _ := strings.Cut(s.page, "\n## "+family.heading+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1)
			if len(blocks) != 2 {
				t.Fatalf("the page has %d statements for %s, want 2", len(blocks), family.heading)
			}
			s.simple, s.all = blocks[0][1], blocks[1][1]
			c, err := dbq.Open(t.Context(), s.dsn, dbq.WithPrefix(s.tables), dbq.WithMigrate())
			check.OK(t, err)
			t.Cleanup(func() { c.Close() })
			s.c = c
			f(s)
		})
	}
}

// run runs a statement in which old has been replaced; the page must have it.
func (f *fromSQL) run(text string, replace ...string) error {
	f.t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			f.t.Fatalf("the page's statement has no %s: %s", replace[i], text)
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return f.runSQL(f.dsn, text)
}

func (f *fromSQL) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fromSQL) list(filter admin.Filter) []dbq.Task {
	f.t.Helper()
	page, err := admin.New(f.c).List(f.t.Context(), filter)
	f.must(err)
	return page.Tasks
}

// A task that a transaction of another program inserts is worked on like any other; what is rolled back is not there,
// and a reference that is taken adds nothing, whatever the state of its task.
func TestEnqueueFromSQL(t *testing.T) {
	onFamiliesFromSQL(t, func(f *fromSQL) {
		f.must(f.run(f.simple, "COMMIT", "ROLLBACK"))
		if tasks := f.list(admin.Filter{}); len(tasks) != 0 {
			f.t.Fatalf("after a rollback there is %+v", tasks)
		}
		f.must(f.run(f.simple))
		f.must(f.run(f.simple))
		handled := f.work()
		task := f.next(handled)
		if task.Kind != "welcome" || string(task.Payload) != `{"to": "ann@example.com"}` ||
			task.Reference != "order 4711" || task.Priority != 0 || task.MaxAttempts != dbq.DefaultMaxAttempts ||
			task.Attempt != 1 || len(task.Headers) != 0 {
			f.t.Errorf("the worker was given %+v", task)
		}
		seconds, _ := task.ID.Time().UnixTime()
		if task.ID.Version() != 7 || task.ID.Variant().String() != "RFC4122" || task.Waited > time.Minute ||
			time.Unix(seconds, 0).Sub(task.Created).Abs() > 2*time.Second {
			f.t.Errorf("the id %s is not of the time %v; waited %v", task.ID, task.Created, task.Waited)
		}
		f.must(f.run(f.simple))
		if _, err := f.c.Queue("mail").Enqueue(f.t.Context(), dbq.NewTask{Reference: "by Go"}); err != nil {
			f.t.Fatal(err)
		}
		if task := f.next(handled); task.Reference != "by Go" {
			f.t.Errorf("a second task was added: %+v", task)
		}
		f.must(f.run(f.simple, "order 4711", "by Go"))
		if tasks := f.list(admin.Filter{}); len(tasks) != 2 {
			f.t.Errorf("there are %d tasks, want 2", len(tasks))
		}
	})
}

// work runs a worker, which hardly polls where notifications arrive, until the test ends.
func (f *fromSQL) work() <-chan dbq.Task {
	handled := make(chan dbq.Task, 10)
	w := worker.Worker{Queue: f.c.Queue("mail"),
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			handled <- task
			return dbq.Completed(nil)
		})}
	if f.c.Info().Dialect == "postgres" {
		w.PollMin, w.PollMax = time.Minute, time.Minute
	}
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	f.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	return handled
}

// next is the next task that the worker has handled.
func (f *fromSQL) next(handled <-chan dbq.Task) dbq.Task {
	f.t.Helper()
	select {
	case task := <-handled:
		return task
	case <-time.After(30 * time.Second):
		f.t.Fatal("no task was handled")
		return dbq.Task{}
	}
}

// On PostgreSQL the notification of the page's transaction wakes an idle worker, which polls once a minute.
func TestEnqueueFromSQLWakes(t *testing.T) {
	onFamiliesFromSQL(t, func(f *fromSQL) {
		if f.c.Info().Dialect != "postgres" {
			f.t.Skip("only PostgreSQL has notifications")
		}
		handled := f.work()
		for !f.c.Stats().Listening && f.t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		var took []time.Duration
		for _, reference := range []string{"a", "b", "c"} {
			time.Sleep(time.Second) // the wake-ups of the worker's start are over
			f.must(f.run(f.simple, "order 4711", reference))
			committed := time.Now()
			f.next(handled)
			took = append(took, time.Since(committed))
		}
		f.t.Logf("started %v after the commit", took)
		if slices.Max(took) > 10*time.Second { // it polls after half a minute at the earliest
			f.t.Errorf("the worker started the tasks %v after the commit, as if it was not notified", took)
		}
	})
}

// All columns arrive, and what a Go program may enqueue is accepted.
func TestEnqueueFromSQLColumns(t *testing.T) {
	onFamiliesFromSQL(t, func(f *fromSQL) {
		f.must(f.run(f.all))
		f.must(f.run(f.all))
		tasks := f.list(admin.Filter{Queue: "mail"})
		if len(tasks) != 1 {
			f.t.Fatalf("there are %d tasks, want 1", len(tasks))
		}
		task := tasks[0]
		if early := 10*time.Minute - task.Due.Sub(task.Created); early.Abs() > 2*time.Second {
			f.t.Errorf("due after %v, want 10 minutes", task.Due.Sub(task.Created))
		}
		if task.Kind != "reminder" || task.Reference != "order 4711, reminder" || task.Key != "acme" ||
			task.Headers["tenant"] != "acme" || len(task.Headers) != 1 || task.Priority != 3 || task.MaxAttempts != 5 {
			f.t.Errorf("got %+v", task)
		}
		queue, reference := strings.Repeat("😀", dbq.MaxQueueName), strings.Repeat("ä", dbq.MaxReference)
		f.must(f.run(f.all, "'mail'", "'"+queue+"'", "reminder'", "'", "order 4711, ", reference, "'acme'", "'"+reference+"'",
			"3, 5", "9, 32767", `{"tenant": "acme"}`, `{}`))
		f.must(f.run(f.all, "'order 4711, reminder'", "NULL", "'acme'", "NULL", `'{"tenant": "acme"}'`, "NULL"))
		tasks = f.list(admin.Filter{Queue: queue, Reference: reference})
		if len(tasks) != 1 || tasks[0].Kind != "" || tasks[0].Priority != dbq.MaxPriority || tasks[0].MaxAttempts != 32767 ||
			tasks[0].Key != reference {
			f.t.Errorf("at the limits: got %+v", tasks)
		}
		if tasks := f.list(admin.Filter{Queue: "mail"}); len(tasks) != 2 || tasks[1].Reference+tasks[1].Key != "" {
			f.t.Errorf("without a reference or key: got %+v", tasks)
		}
	})
}

// What a Go program may not enqueue is refused, with the codes that the page lists.
func TestEnqueueFromSQLRefuses(t *testing.T) {
	onFamiliesFromSQL(t, func(f *fromSQL) {
		long := func(n int) string { return "'" + strings.Repeat("x", n) + "'" }
		const queue, kind, reference, numbers = "'mail'", "'reminder'", "'order 4711, reminder'", "3, 5"
		const key, headers = "'acme'", `'{"tenant": "acme"}'`
		wrong := map[string][][2]string{
			"has no queue or kind": {{queue, "NULL"}, {kind, "NULL"}},
			"has a text that is": {{queue, "''"}, {queue, long(101)}, {queue, long(500)}, {queue, "'a\tb'"},
				{kind, long(101)}, {kind, "'\x7f'"}, {reference, "''"}, {reference, long(201)}, {reference, "'a\x1b[0m'"},
				{key, "''"}, {key, long(201)}, {key, "'a\x01'"}},
			"has a priority outside": {{numbers, "10, 5"}, {numbers, "-1, 5"}},
			"has another `max_att": {{numbers, "3, 0"}, {numbers, "3, 32768"}, {"10 * 60", "-3000000000"},
				{"10 minutes", "-3000 years"}, {"10 minutes", "9000 years"}, {"10 * 60", "9000000000000"}},
			"has headers that are": {{headers, "'{'"}, {headers, "'[]'"}, {headers, `'"a"'`},
				{headers, `'{"a": "` + strings.Repeat("x", 4000) + `"}'`}},
		}
		if f.c.Info().Dialect == "sqlite" { // whose functions of text may end at a NUL
			wrong["has a text that is"] = append(wrong["has a text that is"], [2]string{queue, "'a' || char(0)"},
				[2]string{kind, "'a' || char(0) || 'b'"}, [2]string{key, "'a' || char(0)"})
		}
		if f.c.Info().Dialect == "mysql" {
			wrong["has another `max_att"] = append(wrong["has another `max_att"], [2]string{"LENGTH(", "1 + LENGTH("},
				[2]string{"LENGTH('" + `{"to": "ann@example.com"}` + "')", "NULL"}, [2]string{"'7'", "'4'"})
		}
		for row, changes := range wrong {
			codes := f.codes(row)
			for _, change := range changes {
				if strings.HasPrefix(change[0], "10 ") && !strings.Contains(f.all, change[0]) {
					continue // another engine's time
				}
				if err := f.run(f.all, change[0], change[1]); err == nil || !codes.MatchString(err.Error()) {
					f.t.Errorf("%s: %.40s: got %v, want %s", row, change[1], err, codes)
				}
			}
		}
		if tasks := f.list(admin.Filter{}); len(tasks) != 0 {
			f.t.Errorf("refused rows are there: %+v", tasks)
		}
	})
}

// codes are the errors for a kind of row, as on the page.
func (f *fromSQL) codes(row string) *regexp.Regexp {
	f.t.Helper()
	var cells [2][]string // of the heading and of the row
	for line := range strings.Lines(f.page) {
		for i, start := range []string{"| the row |", "| " + row} {
			if strings.HasPrefix(line, start) {
				cells[i] = strings.Split(line, "|")
			}
		}
	}
	for i, cell := range cells[1] {
		if strings.TrimSpace(cells[0][i]) == f.refused {
			var texts []string
			for _, m := range regexp.MustCompile("`([^`…]+)…?`|\\b([0-9][0-9A-Z]{3,4})\\b").FindAllStringSubmatch(cell, -1) {
				texts = append(texts, regexp.QuoteMeta(m[1]+m[2]))
			}
			if len(texts) > 0 {
				return regexp.MustCompile(strings.Join(texts, "|"))
			}
		}
	}
	f.t.Fatalf("the page does not say how a row that %s is refused by %s", row, f.refused)
	return nil
}

// A user with the page's privileges inserts, and can neither read a task nor change one.
func TestEnqueueFromSQLPrivileges(t *testing.T) {
	onFamiliesFromSQL(t, func(f *fromSQL) {
		family := f.c.Info().Dialect
		if family == "sqlite" {
			f.t.Skip("SQLite has no users")
		}
		u := &roleUser{t: f.t, admin: f.c, name: strings.TrimSuffix(f.tables, "_"), tables: f.tables}
		u.exec(map[string]string{"postgres": "CREATE USER " + u.name + " PASSWORD 'p'",
			"mysql": "CREATE USER " + u.name + " IDENTIFIED BY 'p'"}[family])
		f.t.Cleanup(func() { u.exec("DROP USER " + u.name) })
		grant := regexp.MustCompile(`(?m)^(GRANT [^;]+) TO shop;(.*)$`)
		for _, m := range grant.FindAllStringSubmatch(f.page, -1) {
			if strings.Contains(m[2], "only") && !strings.Contains(m[2], f.c.Info().Server.Product) {
				continue
			}
			u.exec(m[1] + " TO " + u.name)
			f.t.Cleanup(func() { u.exec(strings.Replace(m[1], "GRANT", "REVOKE", 1) + " FROM " + u.name) })
		}
		shop := as(f.t, f.dsn, u.name)
		if programFor(f.t, shop) == nil {
			f.t.Skip("no client program, which alone can be another user")
		}
		for i := range 2 {
			for _, text := range []string{f.simple, f.all} {
				const ignore = "\nON DUPLICATE KEY UPDATE created = created;"
				mariadb := f.c.Info().Server.Product == "MariaDB"
				if mariadb {
					text = strings.ReplaceAll(text, ignore, ";")
				}
				err := f.runSQL(shop, text)
				if mariadb && i == 1 && err != nil && strings.Contains(err.Error(), "1062") {
					err = nil
				}
				f.must(err)
			}
		}
		if tasks := f.list(admin.Filter{}); len(tasks) != 2 {
			f.t.Errorf("there are %d tasks, want 2", len(tasks))
		}
		for _, text := range []string{
			"SELECT payload FROM dbq_enqueue", "SELECT id FROM dbq_task", "UPDATE dbq_enqueue SET queue = 'q'",
			"DELETE FROM dbq_enqueue", "DELETE FROM dbq_task", "UPDATE dbq_task SET fence = 0",
		} {
			err := f.runSQL(shop, strings.ReplaceAll(text, "dbq_", f.tables)+";\n")
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), "denied") {
				f.t.Errorf("%s: got %v, want it denied", text, err)
			}
		}
	})
}

// The page's program in Python adds its task.
func TestEnqueueFromPython(t *testing.T) {
	onFamiliesFromSQL(t, func(f *fromSQL) {
		if f.c.Info().Dialect != "sqlite" {
			f.t.Skip("the page's program is for SQLite")
		}
		text := regexp.MustCompile("(?s)```python\n(.*?)```").FindStringSubmatch(f.page)
		cmd := program(f.t, "", "python3", "-c", text[1])
		if cmd == nil {
			f.t.Skip("no python3")
		}
		file, _, _ := strings.Cut(strings.TrimPrefix(f.dsn, "sqlite:"), "?")
		cmd.Dir = filepath.Dir(file)
		if out, err := cmd.CombinedOutput(); err != nil {
			f.t.Fatal(errors.Join(err, errors.New(string(out))))
		}
		tasks, err := f.c.Queue("mail").Checkout(f.t.Context(), 10, time.Minute)
		if err != nil || len(tasks) != 1 || tasks[0].Reference != "order 4712" ||
			string(tasks[0].Payload) != `{"to": "bob@example.com"}` {
			f.t.Errorf("got %+v, %v, want the task of the program", tasks, err)
		}
	})
}
