//go:build unix

package main

import (
	"context"
	"database/sql"
	"encoding/xml"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// forgetful is SQLite's dialect with a defect: it forgets results.
type forgetful struct{ sqlite.Dialect }

func (forgetful) Statements(n dialect.Names) dialect.Statements {
	st := sqlite.Dialect{}.Statements(n)
	st.Settle.SQL = strings.Replace(st.Settle.SQL, "ELSE d.column7 END", "ELSE NULL END", 1)
	return st
}

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"forgetful"}, Dialect: forgetful{},
		Open: func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			return sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, "forgetful"), nil)
		}})
}

// tables lists what is in a SQLite file.
func (u *user) tables(name string) (out []string) {
	u.t.Helper()
	db, err := sql.Open("sqlite", u.file(name))
	if err != nil {
		u.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT name FROM sqlite_master " +
		"WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name")
	if err != nil {
		u.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			u.t.Fatal(err)
		}
		out = append(out, name)
	}
	if err := rows.Err(); err != nil {
		u.t.Fatal(err)
	}
	return out
}

func TestConformWritesItsReports(t *testing.T) {
	u := newUser(t)
	const match = "^(Clock/|Schema/FromEmpty|Errors/NoPassword|Contention/CrashingTask)"
	o := u.exec("conform", "--run", match, "--seed", "5", "--load", "2", "-v",
		"--report", "json=r.json", "--report", "junit=r.xml")
	o.has("SQLite ", "dialect sqlite", "strategies cas", "seed 5, load 2", "conflicts retried: cas ",
		"keeps dbq's promises as far as", ", 0 failed",
		"skipped (1): the DSN is not a URL with a host\n  cas/Errors/NoPasswordInAnyError\n")
	for _, want := range []string{"SQLite ", "tables c", "passed  cas/Schema/FromEmpty (",
		"passed  cas/Contention/CrashingTaskEndsInPoison ("} {
		if !strings.Contains(o.err, want) {
			t.Errorf("stderr does not say %q: %s", want, o.err)
		}
	}
	rep, err := conformance.ReadReport(strings.NewReader(u.read("r.json")))
	check.OK(t, err)
	passed := rep.Count(conformance.Passed)
	if passed < 5 || len(rep.Results) != passed+1 || rep.Seed != 5 || rep.Match != match || rep.Product != "SQLite" {
		t.Errorf("%d passed of %d, seed %d, match %q, product %q", passed, len(rep.Results), rep.Seed, rep.Match, rep.Product)
	}
	var junit struct {
		Tests   int `xml:"tests,attr"`
		Skipped int `xml:"skipped,attr"`
	}
	if err := xml.Unmarshal([]byte(u.read("r.xml")), &junit); err != nil || junit.Tests != passed+1 || junit.Skipped != 1 {
		t.Errorf("JUnit has %d tests and %d skipped, want %d and 1 (%v)", junit.Tests, junit.Skipped, passed+1, err)
	}
	u.leftNothing(o.err)
	if u.read("dbq.db") != "" {
		t.Error("it made the default file")
	}
}

func TestConformListsLaws(t *testing.T) {
	u := newUser(t)
	const law = "ExpiredIsRedelivered: A checkout hands a task out again after its lease has expired,"
	o := u.run("conform", "--list", "--run", "^Lease/").has("Lease/" + law)
	if strings.Contains(o.out, "Enqueue/") {
		t.Errorf("--run does not select: %s", o.out)
	}
	if n := strings.Count(u.run("conform", "--list", "--json").ok(), `"case":`); n != len(conformance.Cases()) {
		t.Errorf("%d laws as JSON", n)
	}
}

// Every command records its user as the operator of what it changes; the suite's tables are the cases' own.
func TestConformPassesCasesThatRecordOperators(t *testing.T) {
	u := newUser(t)
	u.run("conform", "--run", "^(Operate/RevokeIsRecorded|Operate/ReasonIsKept|Fleet/PausedHandsOutNothing|Audit/)").
		has(", 0 failed")
}

func TestConformOnAFileInUse(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "mine", "--payload", "stays").id()
	before := u.tables("dbq.db")
	o := u.run("conform", "--dsn", "dbq.db", "--run", "^Enqueue/|TwoPrefixes", "--json")
	if rep := o.one(); rep["product"] != "SQLite" || len(rep["results"].([]any)) < 10 {
		t.Errorf("the report is of %v with %v", rep["product"], rep["verdict"])
	}
	if after := u.tables("dbq.db"); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("tables afterwards: %v", after)
	}
	u.run("stats").has("mine")

	u.run("conform", "--dsn", "new.db", "--run", "Schema/FromEmpty").ok()
	if left := filesIn(t, u.dir); strings.Contains(strings.Join(left, " "), "new.db") {
		t.Errorf("it left the file that it made: %v", left)
	}
}

func TestConformFindsABrokenPromise(t *testing.T) {
	if (forgetful{}).Statements(dialect.Names{}).Settle.SQL == (sqlite.Dialect{}).Statements(dialect.Names{}).Settle.SQL {
		t.Fatal("the dialect with a defect has none")
	}
	u := newUser(t)
	o := u.run("conform", "--dsn", "forgetful:"+u.file("q.db"), "--run", "^(RoundTrip|Clock)/", "--report", "junit=r.xml").
		failsAtLast(exitBroken)
	for _, want := range []string{"failed  cas/RoundTrip/ErrorText (", "broken: see the report"} {
		if !strings.Contains(o.err, want) {
			t.Errorf("stderr does not say %q: %s", want, o.err)
		}
	}
	for _, want := range []string{"failed  cas/RoundTrip/ErrorText", "  law   ", "  seen  ", "breaks dbq's promises"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("stdout does not say %q: %s", want, o.out)
		}
	}
	if xml := u.read("r.xml"); !strings.Contains(xml, `<failure message="broken law: `) {
		t.Errorf("JUnit has no failure: %s", xml)
	}
}

func TestConformInterrupted(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	before := u.tables("dbq.db")
	b := u.startProcess("conform", "--dsn", "dbq.db", "-v", "--report", "json=r.json")
	b.err.waitFor(t, "cas/Transitions/") // hundreds of cases are still to come
	b.signal(os.Interrupt)
	o := b.wait().failsAtLast(exitInterrupted)
	if !strings.Contains(o.err, "cases had ended, 0 failed; its tables were dropped") {
		t.Errorf("it does not say what was done: %s", o.err)
	}
	if after := u.tables("dbq.db"); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("tables afterwards: %v", after)
	}
	if o.out != "" || u.read("r.json") != "" {
		t.Errorf("there is a report of what was cut off: %s", o.out)
	}
	u.leftNothing(o.err)
}

func TestConformRefuses(t *testing.T) {
	u := newUser(t)
	for says, args := range map[string][]string{
		"only cas":             {"--strategy", "cas", "--strategy", "hope"},
		"no case matches":      {"--run", "nosuch"},
		"not a regular expr":   {"--run", "("},
		"text, json and junit": {"--report", "pdf=r.pdf"},
		"does not exist":       {"--report", "json=nosuch/r.json"},
		"file name is missing": {"--report", "json="},
		"only one report":      {"--report", "json", "--report", "text"},
		"1 to 1000":            {"--load", "0"},
		"0 to 100":             {"--parallel", "101"},
		"leave out --prefix":   {"--prefix", "own_"},
		"leave out --schema":   {"--schema", "own"},
	} {
		u.run(append([]string{"conform"}, args...)...).fails(exitUsage, says)
	}
	o := u.run("conform", "--dsn", "postgres://app:hush@127.0.0.1:1/app").fails(exitUnavailable, "cannot be tested")
	if strings.Contains(o.err, "hush") {
		t.Errorf("it shows the password: %s", o.err)
	}
	if left := filesIn(t, u.dir); len(left) > 0 {
		t.Errorf("it made %v", left)
	}
}

func TestConformOnPostgres(t *testing.T) {
	dsn := os.Getenv("DBQ_TEST_POSTGRES_DSN")
	if dsn == "" {
		dsn = os.Getenv("DBQ_TEST_POSTGRES18_DSN")
	}
	if dsn == "" {
		t.Skip("neither DBQ_TEST_POSTGRES_DSN nor DBQ_TEST_POSTGRES18_DSN is set")
	}
	u := newUser(t)
	u.run("conform", "--dsn", dsn, "--strategy", "cas", "--strategy", "advisory",
		"--run", "^(Clock/|Errors/|RoundTrip/SessionTimeZone)").
		has("PostgreSQL ", "strategies cas, advisory", "0 failed, 0 skipped")

	b := u.startProcess("conform", "--dsn", dsn, "--parallel", "4", "-v")
	b.err.waitFor(t, "skip-locked/Transitions/") // hundreds of cases are still to come
	b.signal(os.Interrupt)
	o := b.wait().failsAtLast(exitInterrupted)
	m := regexp.MustCompile(`tables (c[0-9a-f]+_)\*`).FindStringSubmatch(o.err)
	if m == nil {
		t.Fatalf("it does not name its tables: %s", o.err)
	}
	_, pool, err := sqlrun.Open(t.Context(), dsn, nil)
	check.OK(t, err)
	defer pool.Close()
	var left int
	const count = "SELECT count(*) FROM pg_class WHERE starts_with(relname, $1)"
	if err := pool.Read.QueryRowContext(t.Context(), count, m[1]).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d tables, indexes and views of it are left (%v)", left, err)
	}
}
