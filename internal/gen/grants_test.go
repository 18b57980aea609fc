package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/postgres"
)

// TestGrantsCoverColumns: the roles of SECURITY.md that list tasks may read every column that a listing selects. The
// tests of the roles need a server; this one does not.
func TestGrantsCoverColumns(t *testing.T) {
	t.Parallel()
	security, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	column := regexp.MustCompile(`\bt\.(\w+)`)
	for _, role := range []string{"operator", "monitor"} {
		granted := map[string]bool{}
		lists := regexp.MustCompile(`GRANT SELECT \(([^)]*)\)\s+ON dbq_task TO ` + role)
		for _, list := range lists.FindAllStringSubmatch(string(security), -1) {
			for name := range strings.FieldsFuncSeq(list[1], func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
				granted[name] = true
			}
		}
		for _, d := range []dialect.Dialect{postgres.Dialect{}, mysql.Dialect{}} {
			selected := column.FindAllStringSubmatch(d.Statements(dialect.Names{Prefix: "dbq_"}).Columns, -1)
			if len(selected) < 15 {
				t.Errorf("%s: only %d columns are found in its listing", d.Name(), len(selected))
			}
			for _, m := range selected {
				if !granted[m[1]] {
					t.Errorf("SECURITY.md does not grant %s the column %s of dbq_task, which %s's listings read", role, m[1], d.Name())
				}
			}
		}
	}
}
