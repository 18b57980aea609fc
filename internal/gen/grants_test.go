package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// TestGrantsCoverColumns: the roles of SECURITY.md that list tasks may read every column that a listing selects. The
// tests of the roles need a server; this one does not.
func TestGrantsCoverColumns(t *testing.T) {
	t.Parallel()
	security, err := os.ReadFile("../../SECURITY.md")
	check.OK(t, err)
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

// TestGrantsCoverUpdates: a producer of unique tasks may change exactly the columns of dbq_task that a replacement
// and a postponement of a task set, and read those by which they find it.
func TestGrantsCoverUpdates(t *testing.T) {
	t.Parallel()
	security, err := os.ReadFile("../../SECURITY.md")
	check.OK(t, err)
	grant := regexp.MustCompile(`GRANT (SELECT|UPDATE) \(([^)]*)\)\s+ON dbq_task TO producer;(.*)`)
	all, used := map[string]bool{}, map[string]bool{} // the columns of the grants of UPDATE
	for _, d := range []dialect.Dialect{postgres.Dialect{}, mysql.Dialect{}} {
		granted := map[string]bool{} // a privilege and a column
		for _, m := range grant.FindAllStringSubmatch(string(security), -1) {
			for name := range strings.FieldsFuncSeq(m[2], func(r rune) bool { return strings.ContainsRune(", \n", r) }) {
				all[name] = all[name] || m[1] == "UPDATE"
				if d.Name() == "mysql" || !strings.Contains(m[3], "MySQL") {
					granted[m[1]+" "+name] = true
				}
			}
		}
		st := sqlrun.NewTexts(d, dialect.Names{Prefix: "dbq_"})
		for _, text := range []string{st.Replace.SQL, st.Postpone.SQL} {
			for privilege, columns := range changedColumns(text) {
				for _, name := range columns {
					used[name] = used[name] || privilege == "UPDATE"
					if !granted[privilege+" "+name] {
						t.Errorf("SECURITY.md does not grant producer %s of the column %s of dbq_task, as %s needs it for:\n%s",
							privilege, name, d.Name(), text)
					}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] && !used[name] {
			t.Errorf("SECURITY.md grants producer UPDATE of the column %s, which no statement of a producer sets", name)
		}
	}
}

// changedColumns returns the columns of the table that an UPDATE sets, and those that its conditions read, by the
// privilege that they need.
func changedColumns(text string) map[string][]string {
	set, where, _ := strings.Cut(text, "WHERE")
	columns := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?:SET|,)\s+(?:t\.)?(\w+) = `).FindAllStringSubmatch(set, -1) {
		columns["UPDATE"] = append(columns["UPDATE"], m[1])
	}
	for _, m := range regexp.MustCompile(`(?:^|AND)\s+(?:t\.)?(\w+) `).FindAllStringSubmatch(where, -1) {
		columns["SELECT"] = append(columns["SELECT"], m[1])
	}
	return columns
}
