package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/oracle"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// engines are the dialects whose SQL is printed.
var engines = []dialect.Dialect{sqlite.Dialect{}, postgres.Dialect{}, mysql.Dialect{}, oracle.Dialect{}}

//go:embed statements.txt
var statementsText string

// comments are those of statements.txt, by name.
var comments = readComments(statementsText)

func readComments(text string) map[string]string {
	out, last := map[string]string{}, ""
	for line := range strings.Lines(text) {
		more, indented := strings.CutPrefix(line, "  ")
		name, comment, found := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "#"):
		case indented:
			out[last] += " " + strings.TrimSpace(more)
		case found:
			out[name], last = strings.TrimSpace(comment), name
		}
	}
	return out
}

const sqlIntro = `-- Every statement that dbq sends to this engine, for DBA review.
-- Generated from the dialect by "go generate ./..."; do not edit.
--
%s
--
-- {now} stands for the database's clock:
--   %s

-- ======== The schema ========

`

// sqlPage returns the page on an engine for DBAs: its migrations, and its statements by name.
func sqlPage(d dialect.Dialect) (string, error) {
	schema, err := dbq.MigrationSQL(d)
	if err != nil {
		return "", err
	}
	st := sqlrun.NewTexts(d, dialect.Names{Prefix: "dbq_"})
	sent := "which is sent apart from the text and never written into it"
	if _, inlines := d.(dialect.Inliner); inlines {
		sent = "which the driver writes into the text, escaped; an id is written as x'...'"
	}
	batches := "In a statement that takes many rows, it is an array."
	switch {
	case st.Insert.Row != "" && st.Remove.Row == "":
		batches = "Rows come as a list of values, or as arrays, with which a statement is run once for each row."
	case st.Insert.Row != "":
		batches = "Rows come as a list of values."
	}
	clock := strings.Fields(regexp.QuoteMeta(st.Now)) // which each statement indents in its own way
	p := printer{engine: d.Name(), now: regexp.MustCompile(strings.Join(clock, `\s+`))}
	var states []string
	for _, s := range state.All() {
		states = append(states, fmt.Sprintf("%s %v", state.Literals(s), s))
	}
	about := fmt.Sprintf("A :name stands for a value, %s. %s Times are microseconds since 1970 in UTC. States are %s."+
		" Tables begin with \"dbq_\" unless a program says otherwise.", sent, batches, strings.Join(states, ", "))
	fmt.Fprintf(&p.b, sqlIntro, commentLines(about), strings.ReplaceAll(st.Now, "\n", "\n--   "))
	p.b.WriteString(schema + "\n-- ======== The statements ========\n")
	p.statements(st)
	return p.b.String(), p.err
}

// commentLines returns a text as lines of SQL comment of at most 118 columns.
func commentLines(text string) string { return wrapped(text, "--") }

// wrapped returns a text as lines of at most 118 columns that begin with prefix and a space.
func wrapped(text, prefix string) string {
	lines, line := "", prefix
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 118 {
			lines, line = lines+line+"\n", prefix
		}
		line += " " + word
	}
	return lines + line
}

// printer writes statements under their names.
type printer struct {
	engine string
	now    *regexp.Regexp // the database's clock
	b      strings.Builder
	err    error
}

// parts are the fields of Statements that are no statements but stand in others.
var parts = []string{"Dual", "Limit", "Columns", "Payload", "DropTable", "DropView", "Assignments", "Purge",
	"Purgeable"}

// statements writes every other field, so that none can be forgotten.
func (p *printer) statements(st sqlrun.Texts) {
	v := reflect.ValueOf(st)
	for _, field := range reflect.VisibleFields(v.Type()) {
		value := v.FieldByIndex(field.Index)
		if b, ok := value.Interface().(dialect.Batch); ok && b.SQL == "" && sqlrun.MayBeEmpty(field.Name) {
			continue
		}
		if !field.Anonymous && !slices.Contains(parts, field.Name) {
			p.field(field.Name, comments[field.Name], value)
		}
	}
}

// field writes the statements of a field, or of an entry of one that is a map.
func (p *printer) field(name, comment string, v reflect.Value) {
	switch f := v.Interface().(type) {
	case dialect.PlaceholderStyle, []state.State:
	case string:
		if f != "" {
			p.text(name, comment, f)
		}
	case []string:
		if len(f) > 0 {
			p.text(name, comment, f...)
		}
	case dialect.Batch:
		if f.SQL != "" && f.Max == 0 { // a plain text of Own
			p.text(name, comment, f.SQL)
		} else {
			p.batch(name, comment, f)
		}
	default:
		if v.Kind() != reflect.Map {
			p.err = fmt.Errorf("the field %s of Statements is a %T, which gen cannot print", name, f)
			return
		}
		texts := map[string]reflect.Value{}
		for _, key := range v.MapKeys() {
			texts[fmt.Sprint(key)] = v.MapIndex(key)
		}
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			event, _ := state.Find(state.Event(key), state.Operator)
			p.field(name+" "+key, cmp.Or(comments[name+" "+key], comment, event.Doc), texts[key])
		}
	}
}

// stateDigit is a comparison with a state, and the comment that it may have.
var stateDigit = regexp.MustCompile(`\bstate(?: \+ 0)? (?:=|>=|<>) [0-4]\b(?: /\*)?`)

// named writes a state's name beside its number.
func named(comparison string) string {
	if strings.HasSuffix(comparison, "*") {
		return comparison
	}
	return fmt.Sprintf("%s /* %v */", comparison, state.State(comparison[len(comparison)-1]-'0'))
}

// text writes statements under their name, with the clock and the states by their names.
func (p *printer) text(name, comment string, texts ...string) {
	if comment == "" {
		p.err = fmt.Errorf("%s: internal/gen/statements.txt has no comment on %q", p.engine, name)
	}
	fmt.Fprintf(&p.b, "\n-- ==== %s ====\n%s\n", name, commentLines(comment))
	for _, text := range texts {
		if name != "Now" {
			text = p.now.ReplaceAllLiteralString(text, "{now}")
		}
		for line := range strings.Lines(sqlrun.Terminated(text)) {
			if !strings.HasPrefix(line, "--") {
				line = stateDigit.ReplaceAllStringFunc(line, named)
			}
			p.b.WriteString(line)
		}
	}
}

func (p *printer) batch(name, comment string, b dialect.Batch) {
	if b.SQL == "" {
		p.err = fmt.Errorf("%s: %q has no text", p.engine, name)
	}
	rows, text := fmt.Sprintf("-- At most %d rows.\n", b.Max), b.SQL
	switch {
	case strings.HasPrefix(b.Sep, "\n"): // a row has lines of its own
		text = strings.Replace(text, "{rows}", "-- for each row:"+b.Sep+b.Row, 1)
	case b.Row != "":
		row := stateDigit.ReplaceAllStringFunc(p.now.ReplaceAllLiteralString(b.Row, "{now}"), named)
		rows = fmt.Sprintf("-- {rows} is a list of at most %d of these, separated by %q:\n%s\n",
			b.Max, b.Sep, wrapped(row, "--  "))
	}
	body := strings.TrimLeft(leadingComments.ReplaceAllString(text, ""), "\n")
	p.text(name, comment, leadingComments.FindString(text)+rows+body)
}

// leadingComments are the lines of comment that a text begins with.
var leadingComments = regexp.MustCompile(`^(?:--.*\n)*`)
