package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
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
	if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	const program = "package p\n\nimport (\n\t\"errors\"\n\t\"fmt\"\n\n\tq \"x.y/z\"\n)\n\n" +
		"func Print() { fmt.Println(q.Text) }\n"
	longer := program + "\nvar E = errors.New(\"\")\n"
	if err := os.WriteFile(filepath.Join(root, "q.go"), []byte(longer), 0o600); err != nil {
		t.Fatal(err)
	}
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
	dir := t.TempDir()
	suite := conformance.Cases()
	law := suite[0]
	write := func(name string, rep conformance.Report) {
		t.Helper()
		rep.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var b bytes.Buffer
		if err := rep.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		for ending, text := range map[string]string{".json": b.String(), ".md": ""} {
			if err := os.WriteFile(filepath.Join(dir, name+ending), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("maria118", conformance.Report{Product: "MariaDB", Version: "11.8",
		Strategies: []dialect.Strategy{dialect.SkipLocked, dialect.CAS},
		Results: []conformance.Result{{Case: law, Strategy: dialect.SkipLocked},
			{Case: law, Strategy: dialect.CAS, Failures: []string{"it does not"}}}})
	write("maria9", conformance.Report{Product: "MariaDB", Version: "9.9", Strategies: []dialect.Strategy{dialect.CAS},
		Results: []conformance.Result{{Case: law, Strategy: dialect.CAS, Skipped: "no"}}})
	reports, err := readReports(dir)
	if err != nil {
		t.Fatal(err)
	}
	added := strconv.Itoa(len(suite) - 1)
	got := strings.Split(reportTable(reports), "\n")[2:]
	for i, want := range []string{
		"| MariaDB | 9.9 | – | – | 0 passed | 1 | " + added + " | [2026-01-02](reports/maria9.md) |",
		"| MariaDB | 11.8 | 1 passed | – | 0 passed, **1 failed** | 0 | " + added + " | [2026-01-02](reports/maria118.md) |",
		"| Oracle | not yet run against a server |",
	} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("line %d is %q, want %q", i, got[i], want)
		}
	}
	write("oracle", conformance.Report{Product: "Oracle", Version: "23.9", Strategies: []dialect.Strategy{dialect.CAS}})
	if reports, err = readReports(dir); err != nil || strings.Contains(reportTable(reports), "not yet run") {
		t.Errorf("with a report (%v) it still says: %s", err, reportTable(reports))
	}
	write("part", conformance.Report{Product: "X", Version: "1", Match: "Lease",
		Strategies: []dialect.Strategy{dialect.CAS}})
	if _, err := readReports(dir); err == nil {
		t.Error("a report of a part of the suite is taken for one of the whole")
	}
}
