package rules

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// dialects are the directories whose files of SQL have the same names and statements.
var dialects = []string{"mysql", "oracle", "postgres", "sqlite"}

// some are the private statements that not every dialect has, with the dialects that have them; docs/sql describes
// each. A field of Statements is in every dialect, unless its tag says that it may be empty.
var some = []struct{ dialects, why, statements string }{
	{"postgres", "statements that find and take, statistics of dead tuples",
		"ready within, take ready, take expired, dead tuples"},
	{"mysql", "two products and TiDB, turns of large checkouts",
		"ready sizes, turn lock, turn free, try lock ready, try lock expired, known_started, lock settle, lock remove"},
	{"oracle", "arrays, which return nothing, and the strategy update", "update, taken, lock, settled"},
	{"sqlite", "single rows are worth a statement", "any, insert one new, complete one, remove one"},
	{"oracle sqlite", "a single row, and one with a given id", "insert one"},
	{"sqlite", "one writer: what is found need not be locked", "expired"},
	{"mysql oracle", "no RETURNING from a statement for many rows, locks of a session",
		"inserted, extended, due, queue free, lock ready, lock expired, poison, claim, claimed"},
	{"mysql postgres", "a search for expired leases starts at the oldest", "oldest"},
	{"sqlite", "a list of tasks that a checkout has chosen", "given, take given"},
	{"mysql sqlite", "lists of rows, payloads that are read when it is known which fit",
		"lock uniform, payloads"},
	{"postgres sqlite", "RETURNING", "remove uniform"},
	{"mysql oracle postgres", "many writers", "queue lock, see ready, see expired"},
	{"mysql oracle sqlite", "PostgreSQL finds and takes in one statement", "take, take over"},
	{"mysql postgres sqlite", "rows under one fence; Oracle has arrays", "insert uniform, complete uniform"},
}

// sqlName is the name of a text in a file of SQL, the first line of comment after an empty line, without what stands
// before the name of a dialect's private statement.
var sqlName = regexp.MustCompile(`(?:\A|\n\n)-- (Text |Batch )?(.+)\n`)

// privateName is the same in statements.txt.
var privateName = regexp.MustCompile(`^Private `)

// heading is a section of statements.txt: the name of the files that have its statements.
var heading = regexp.MustCompile(`^## (\w+): `)

// TestStatementFiles checks that a statement is in the files of one name, which is the section of docs/sql that has it,
// and that every dialect has it unless some says otherwise.
func TestStatementFiles(t *testing.T) {
	have, file := map[string][]string{}, map[string]string{}
	sources(t, func(name string, content []byte) {
		if ok, _ := path.Match("dialect/*/sql/*.sql", name); !ok {
			return
		}
		d := path.Base(path.Dir(path.Dir(name)))
		for _, m := range sqlName.FindAllStringSubmatch(string(content), -1) {
			text, own := m[2], m[1] != ""
			if (own || text[0] >= 'A' && text[0] <= 'Z') && !strings.HasSuffix(text, " row") {
				have[text] = append(have[text], d)
				if other := file[text]; other != "" && path.Base(other) != path.Base(name) {
					t.Errorf("%q is in %s and in %s: move it to a file of the same name", text, other, name)
				}
				file[text] = name
			}
		}
	})
	want := map[string]string{}
	for _, s := range some {
		for name := range strings.SplitSeq(s.statements, ", ") {
			if want[name] = s.dialects; have[name] == nil {
				t.Errorf("no dialect has %q: remove it from some", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		expected := strings.Fields(want[name])
		if len(expected) == 0 {
			expected = dialects
		}
		if f := sqlrun.FieldOf(strings.TrimSuffix(name, " free")); f.Default || f.Optional {
			continue
		}
		if slices.Sort(have[name]); !slices.Equal(have[name], expected) {
			t.Errorf("%q is a statement of %v, want %v", name, have[name], expected)
		}
	}
	sections, err := os.ReadFile(path.Join(repository, "internal/gen/statements.txt"))
	check.OK(t, err)
	section := ""
	for line := range strings.Lines(string(sections)) {
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
		}
		name, _, _ := strings.Cut(privateName.ReplaceAllString(line, ""), ": ")
		if at := file[name]; at != "" && path.Base(at) != section+".sql" {
			t.Errorf("%q is in %s and in the section %s of statements.txt", name, at, section)
		}
	}
}
