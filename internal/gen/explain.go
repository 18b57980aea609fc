package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// explained are the statements that workers run most, by engine: each with the indexes of its plan. The tests of
// plans in each dialect's directory run the pages that are made of them. There is no page for Oracle, since there is
// no server to run it on.
var explained = map[string][]struct{ name, indexes string }{
	"postgres": {
		{"Private ready", "task_ready"},
		{"Private ready within", "task_ready"},
		{"Private see ready", "task_ready"},
		{"Private take ready", "task_pkey"},
		{"Private see expired", "task_busy"},
		{"Private take expired", "task_pkey"},
		{"Extend", "task_pkey"},
		{"Settle", "task_pkey"},
		{"Private complete uniform", "task_pkey"},
		{"Remove", "task_pkey"},
		{"Next", "task_ready task_busy"},
	},
	"mysql": {
		{"Private due", "task_lane"},
		{"Private ready", "task_lane"},
		{"Private see ready", "task_lane"},
		{"Private lock ready", "PRIMARY"},
		{"Private take", "PRIMARY"},
		{"Private see expired", "task_lane"},
		{"Private lock expired", "PRIMARY"},
		{"Private take over", "PRIMARY"},
		{"Extend", "PRIMARY"},
		{"Private lock settle", "PRIMARY"},
		{"Settle", "PRIMARY"},
		{"Private complete uniform", "PRIMARY"},
		{"Remove", "PRIMARY"},
		{"Next", "task_lane"},
	},
	"sqlite": {
		{"Private any", "task_busy task_ready"},
		{"Private ready", "task_ready"},
		{"Private take", "task_ready"},
		{"Private expired", "task_busy"},
		{"Private take over", "task_id"},
		{"Extend", "task_id"},
		{"Settle", "task_id"},
		{"Private complete uniform", "task_id"},
		{"Remove", "task_id"},
		{"Next", "task_busy task_ready"},
	},
}

// explain has the words before a statement, the command that runs a page, and the place where a search starts: on
// PostgreSQL in each of ten priorities.
var explain = map[string]struct{ prefix, run, since string }{
	"postgres": {"EXPLAIN", "psql -f docs/sql/postgres-explain.sql", "'{0,0,0,0,0,0,0,0,0,0}'"},
	"mysql":    {"EXPLAIN FORMAT=TRADITIONAL", "mysql DATABASE < docs/sql/mysql-explain.sql", "0"},
	"sqlite":   {"EXPLAIN QUERY PLAN", "sqlite3 dbq.db < docs/sql/sqlite-explain.sql", "0"},
}

const explainIntro = `-- The statements that workers run most, with values for their parameters, to see their plans.
-- Generated from the dialect by "go generate ./..."; do not edit. Tests run this page on each server.
--
%s
`

// explainPage returns the page of runnable EXPLAINs on an engine.
func explainPage(d dialect.Dialect) (string, error) {
	all, err := statements(d)
	if err != nil {
		return "", err
	}
	with := explain[d.Name()]
	about := fmt.Sprintf("Paste a statement into a client, or run all: %s. EXPLAIN changes nothing. Replace 'work' with"+
		" the name of a queue, and dbq_ with your tables' prefix. Each plan reaches the tasks by the index that is named"+
		" above the statement. A statement that takes many rows has two here.", with.run)
	var b strings.Builder
	fmt.Fprintf(&b, explainIntro, commentLines(about))
	for _, x := range explained[d.Name()] {
		at := slices.IndexFunc(all, func(s statement) bool { return s.name == x.name })
		if at < 0 {
			return "", fmt.Errorf("%s has no statement %q to explain", d.Name(), x.name)
		}
		var indexes []string
		for index := range strings.FieldsSeq(x.indexes) {
			if strings.HasPrefix(index, "task_") {
				index = "dbq_" + index
			}
			indexes = append(indexes, index)
		}
		text, err := withValues(d, all[at])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n-- ==== %s ====\n%s\n-- Index: %s\n%s\n%s;\n",
			title(x.name), commentLines(all[at].comment), strings.Join(indexes, ", "), with.prefix, text)
	}
	return b.String(), nil
}

// placeholder is a value's name in a statement.
var placeholder = regexp.MustCompile(`:([a-z_]+)([0-9]?)\b`)

// withValues returns a statement with two rows and a literal for each value, without its comments.
func withValues(d dialect.Dialect, s statement) (string, error) {
	literals := maps.Clone(values)
	literals["since"] = explain[d.Name()].since
	arrays := s.batch.SQL != "" && s.batch.Row == "" && s.batch.Max > 1
	if arrays {
		maps.Copy(literals, arrayValues)
		if strings.HasSuffix(s.name, " uniform") {
			literals["fence"] = "1"
		}
	}
	var unknown error
	fill := func(text, id string) string {
		return placeholder.ReplaceAllStringFunc(text, func(found string) string {
			name := placeholder.FindStringSubmatch(found)[1]
			if name == "id" && !arrays {
				return id
			}
			value, ok := literals[name]
			if !ok {
				unknown = fmt.Errorf("%s: no value for %s of %q", d.Name(), found, s.name)
			}
			return value
		})
	}
	text := s.batch.SQL
	if text == "" {
		text = s.texts[0]
	}
	text = fill(leadingComments.ReplaceAllString(text, ""), firstID)
	separator := strings.TrimRight(sqlrun.Separator(s.batch), " ")
	rows := fill(s.batch.Row, firstID) + separator + "\n" + fill(s.batch.Row, secondID)
	text = strings.Replace(text, "{rows}", rows, 1)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, folded(line))
	}
	return strings.Join(lines, "\n"), unknown
}

// Ids of tasks as bytes, in the order of their time.
const (
	firstID  = "x'019a0000000070008000000000000001'"
	secondID = "x'019a0000000070008000000000000002'"
)

// values are literals for the values of statements, and arrayValues for those that are arrays on PostgreSQL.
var (
	values = map[string]string{
		"queue": "'work'", "holder": "'host#1'", "priority": "5", "limit": "10", "oldest": "0",
		"lease": "60000000", "known_started": "0", "now": "1700000000000000", "was_due": "1700000000000000",
		"bytes": "67108864", "used": "0", "share": "1048576", "lock_wait": "1000", "result": "NULL",
		"fence": "1", "state": "2", "at": "NULL", "after": "NULL", "uncount": "0",
		"progress": "NULL", "callers_tx": "0",
	}
	arrayValues = map[string]string{
		"id":    "'{019a0000-0000-7000-8000-000000000001,019a0000-0000-7000-8000-000000000002}'",
		"fence": "'{1,1}'", "state": "'{2,2}'", "at": "'{NULL,NULL}'", "after": "'{NULL,NULL}'",
		"uncount": "'{0,0}'", "result": "'{NULL,NULL}'", "progress": "'{NULL,NULL}'",
	}
)

// clause matches the best places to break a line: before one of these words.
var clause = regexp.MustCompile(`^ (?:AND|OR|FROM|WHERE|ORDER BY|ELSE|THEN)`)

// folded breaks a line of more than 118 columns at spaces outside of literals, if possible before a clause or after a
// comma.
func folded(line string) string {
	const most = 118
	if len(line) <= most {
		return line
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	last, best, quoted := -1, -1, false
	for i := indent; i < most; i++ {
		if line[i] == '\'' {
			quoted = !quoted
		} else if line[i] == ' ' && !quoted {
			if last = i; line[i-1] == ',' || clause.MatchString(line[i:]) {
				best = i
			}
		}
	}
	at := best
	if at < 0 {
		at = last
	}
	if at < 0 {
		return line
	}
	return line[:at] + "\n" + folded(strings.Repeat(" ", indent+2)+line[at+1:])
}
