package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
)

func TestFillTableRequiresItsMarkers(t *testing.T) {
	t.Parallel()
	const page = "a\n<!-- t: made by go generate -->\nold\n<!-- end of t -->\nz\n"
	got, err := fillTable(page, "t", "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{
		"", strings.Replace(page, "end of t", "end", 1), strings.Replace(page, "made by", "by", 1),
	} {
		if _, err := fillTable(bad, "t", "new\n"); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestFillCode(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const source = "package p\n\n// A is one.\nconst (\n\tA = 1\n\tB = 2\n)\n\n" +
		"// F does it.\nfunc (x T) F() {}\n\ntype T int\n"
	check.OK(t, os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o600))
	const program = "package p\n\nimport (\n\t\"errors\"\n\t\"fmt\"\n\n\tq \"x.y/z\"\n)\n\n" +
		"func Print() { fmt.Println(q.Text) }\n"
	longer := program + "\nvar E = errors.New(\"\")\n"
	check.OK(t, os.WriteFile(filepath.Join(root, "q.go"), []byte(longer), 0o600))
	part := func(kind, mark, code string) string {
		return "text\n<!-- " + kind + ": " + mark + " -->\n```go\n" + code + "```\nmore\n"
	}
	block := func(mark, code string) string { return part("code", mark, code) }
	for mark, want := range map[string]string{
		"p.go T F": "type T int\n\n// F does it.\nfunc (x T) F() {}\n",
		"p.go A":   "// A is one.\nconst (\n\tA = 1\n\tB = 2\n)\n",
		"p.go":     source,
	} {
		if got, err := fillCode(block(mark, "stale\n"), root); err != nil || got != block(mark, want) {
			t.Errorf("%s: got %q, %v", mark, got, err)
		}
	}
	want := part("file", "q.go Print", strings.Replace(program, "\t\"errors\"\n", "", 1))
	if got, err := fillCode(part("file", "q.go Print", ""), root); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, mark := range []string{"p.go Missing", "missing.go"} {
		if _, err := fillCode(block(mark, ""), root); err == nil {
			t.Errorf("%s: no error", mark)
		}
	}
}

func TestReportTable(t *testing.T) {
	t.Parallel()
	law := conformance.Cases()[0]
	var all counts
	add := func(r conformance.Report) {
		t.Helper()
		r.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var err error
		if all, err = all.with(r); err != nil {
			t.Fatal(err)
		}
	}
	failed := []string{"it does not"}
	add(conformance.Report{Product: "MariaDB", Version: "11.7", Strategies: []dialect.Strategy{dialect.CAS},
		Results: []conformance.Result{{Case: law, Strategy: dialect.CAS, Failures: failed}}})
	add(conformance.Report{Product: "MariaDB", Version: "11.8.6-MariaDB",
		Strategies: []dialect.Strategy{dialect.SkipLocked, dialect.CAS},
		Results: []conformance.Result{{Case: law, Strategy: dialect.SkipLocked},
			{Case: law, Strategy: dialect.CAS, Failures: failed}}})
	add(conformance.Report{Product: "MariaDB", Version: "9.9", Strategies: []dialect.Strategy{dialect.CAS},
		Results: []conformance.Result{{Case: law, Strategy: dialect.CAS, Skipped: "no"}}})
	table, laws := all.table(), map[string]int{}
	for _, law := range conformance.Cases() {
		laws[law.Group]++
	}
	for _, want := range []string{
		"| group | laws today | MariaDB 9.9 | MariaDB 11.8.6 |\n",
		"| date of the run |  | 2026-01-02 | 2026-01-02 |\n",
		fmt.Sprintf("| Schema | %d | 0, 1 skipped | 1 |\n", laws["Schema"]),
		fmt.Sprintf("| Enqueue | %d | – | – |\n", laws["Enqueue"]),
		"| again under `cas` |  | – | 0, **1 failed** |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	file := filepath.Join(t.TempDir(), "reports.csv")
	check.OK(t, all.write(file))
	if read, err := readCounts(file); err != nil || read.table() != table {
		t.Errorf("written and read (%v) it is:\n%s", err, read.table())
	}
	if _, err := all.with(conformance.Report{Product: "X", Version: "1", Match: "Lease"}); err == nil {
		t.Error("a report of a part of the suite is taken for one of the whole")
	}
}
