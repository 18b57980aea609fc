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

// purposes describe each statement, as in statements.txt, by name, or by name and engine as in "Private ready
// (postgres)".
var purposes = readPurposes(statementsText)

// A purpose describes a statement, and has its place on a page.
type purpose struct {
	section, comment string
	place            int
}

func readPurposes(text string) map[string]purpose {
	out, section, last := map[string]purpose{}, "", ""
	for line := range strings.Lines(text) {
		heading, isHeading := strings.CutPrefix(line, "## ")
		more, indented := strings.CutPrefix(line, "  ")
		name, comment, found := strings.Cut(line, ": ")
		switch {
		case isHeading:
			_, section, _ = strings.Cut(strings.TrimSpace(heading), ": ")
		case strings.HasPrefix(line, "#"):
		case indented:
			p := out[last]
			p.comment += " " + strings.TrimSpace(more)
			out[last] = p
		case found:
			out[name], last = purpose{section, strings.TrimSpace(comment), len(out)}, name
		}
	}
	return out
}

const sqlIntro = `-- Every statement that dbq runs on its tables, for review by a DBA. docs/scaling.md describes
-- the settings of its sessions. This page omits COMMIT, ROLLBACK, savepoints, LISTEN, and queries of the server's
-- version and settings.
-- Generated from the dialect by "go generate ./..."; do not edit.

-- ======== Conventions ========

%s
--
-- {now} stands for the database's clock:
--   %s%s

-- ======== The schema ========

-- You can paste this section into the engine's client, to create the tables by hand. "dbq migrate" runs it.

`

// sqlPage returns the page on an engine for DBAs: its migrations, and its statements in the order of statements.txt.
func sqlPage(d dialect.Dialect) (string, error) {
	schema, err := dbq.MigrationSQL(d)
	if err != nil {
		return "", err
	}
	st := sqlrun.NewTexts(d, dialect.Names{Prefix: "dbq_"})
	all, err := statements(d)
	if err != nil {
		return "", err
	}
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
	var states []string
	for _, s := range state.All() {
		states = append(states, fmt.Sprintf("%s %v", state.Literals(s), s))
	}
	about := fmt.Sprintf("A :name stands for a value, %s. %s Times are microseconds since 1970 in UTC. States are %s."+
		" Tables begin with \"dbq_\" unless a program says otherwise.", sent, batches, strings.Join(states, ", "))
	words := strings.Fields(regexp.QuoteMeta(st.Now)) // each statement indents the clock in its own way
	p := printer{now: regexp.MustCompile(strings.Join(words, `\s+`)), shared: shared(all), terms: strings.NewReplacer()}
	if d.Name() == "sqlite" { // these tables have no primary key there
		p.terms = strings.NewReplacer("the primary key of task", "task_id", "the primary key of archive", "archive_id")
	}
	conventions := ""
	for _, c := range p.shared {
		conventions += "\n--\n" + commentLines(fmt.Sprintf("In %s: %s", strings.Join(c.of, ", "), c.words()))
	}
	fmt.Fprintf(&p.b, sqlIntro, commentLines(about), strings.ReplaceAll(st.Now, "\n", "\n--   "), conventions)
	p.b.WriteString(schema) // complete, to be pasted into the engine's client
	for i, s := range all {
		if i == 0 || s.section != all[i-1].section {
			fmt.Fprintf(&p.b, "\n-- ======== %s ========\n", s.section)
		}
		p.statement(s)
	}
	return p.b.String(), nil
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

// A statement is an entry of a page: texts, or a batch.
type statement struct {
	purpose
	name  string
	texts []string
	batch dialect.Batch
}

// privateName is the prefix of the name of a dialect's private statement.
var privateName = regexp.MustCompile(`^Private `)

// title is the name under which a page has a statement.
func title(name string) string { return privateName.ReplaceAllString(name, "") }

// statements returns the statements of a dialect in the order of statements.txt. One that is not there is an error.
func statements(d dialect.Dialect) ([]statement, error) {
	c := collector{engine: d.Name()}
	v := reflect.ValueOf(sqlrun.NewTexts(d, dialect.Names{Prefix: "dbq_"}))
	for _, field := range reflect.VisibleFields(v.Type()) {
		if !field.Anonymous && !sqlrun.FieldOf(field.Name).Part {
			c.add(field.Name, c.purpose(field.Name), v.FieldByIndex(field.Index))
		}
	}
	for _, s := range c.all {
		if s.comment == "" {
			return nil, fmt.Errorf("%s: internal/gen/statements.txt has no comment on %q", d.Name(), s.name)
		}
	}
	slices.SortStableFunc(c.all, func(a, b statement) int { return cmp.Compare(a.place, b.place) })
	return c.all, c.err
}

type collector struct {
	engine string
	all    []statement
	err    error
}

// purpose returns the description of a statement of this engine, in the place that it has on all engines.
func (c *collector) purpose(name string) purpose {
	about := purposes[name]
	if own, found := purposes[name+" ("+c.engine+")"]; found {
		about.comment = own.comment
	}
	return about
}

// add adds the statements of a field, or of an entry of one that is a map.
func (c *collector) add(name string, about purpose, v reflect.Value) {
	s := statement{name: name, purpose: about}
	switch f := v.Interface().(type) {
	case string:
		s.texts = []string{f}
	case []string:
		s.texts = f
	case dialect.Lock:
		s.texts = []string{f.Take}
		if f.Free != "" {
			c.add(name+" free", c.purpose(name+" free"), reflect.ValueOf(f.Free))
		}
	case dialect.Index:
		if f.Where == "" {
			return
		}
		s.texts = []string{indexText(f)}
	case dialect.Batch:
		if s.batch = f; f.Max == 0 { // a plain text
			s.batch, s.texts = dialect.Batch{}, []string{f.SQL}
		}
	default:
		c.addMap(name, about, v)
		return
	}
	if s.batch.SQL != "" || len(s.texts) > 0 && s.texts[0] != "" {
		c.all = append(c.all, s)
	} else if !sqlrun.FieldOf(name).Optional {
		c.err = fmt.Errorf("%q has no text", name)
	}
}

// indexText returns the text of an index for a page.
func indexText(by dialect.Index) string {
	text := strings.TrimSpace(sqlrun.IndexText("{hint}\n{where}{order}", by))
	if by.Filter != "" {
		text = "-- Added to filters for the state alone: " + by.Filter + "\n" + text
	}
	return text
}

func (c *collector) addMap(name string, about purpose, v reflect.Value) {
	if v.Kind() != reflect.Map {
		c.err = fmt.Errorf("the field %s of Statements is a %v, which gen cannot print", name, v.Type())
		return
	}
	texts := map[string]reflect.Value{}
	for _, key := range v.MapKeys() {
		texts[fmt.Sprint(key)] = v.MapIndex(key)
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		own := c.purpose(name + " " + key)
		if own.comment == "" {
			own = about
			if event, ok := state.Find(state.Event(key), state.Operator); ok {
				own.comment += " " + event.Doc
			}
		}
		c.add(name+" "+key, own, texts[key])
	}
}

// A remark is a comment on several statements.
type remark struct {
	lines string
	of    []string // the statements' names
}

// words returns the comment as text.
func (r remark) words() string { return strings.ReplaceAll("\n"+r.lines, "\n--", "") }

// shared returns the comments that three or more statements have, which a page has only once. A map of statements
// counts as one.
func shared(all []statement) []remark {
	var out []remark
	for _, s := range all {
		name := title(s.name)
		if name == s.name {
			name, _, _ = strings.Cut(name, " ")
		}
		for _, text := range append(slices.Clone(s.texts), s.batch.SQL) {
			for _, lines := range remarks(text) {
				i := slices.IndexFunc(out, func(r remark) bool { return r.lines == lines })
				if i < 0 {
					i, out = len(out), append(out, remark{lines: lines})
				}
				if !slices.Contains(out[i].of, name) {
					out[i].of = append(out[i].of, name)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(r remark) bool { return len(r.of) < 3 || strings.HasPrefix(r.lines, "-- Runs ") })
}

// remarks returns the comment before a text in parts, each of which ends with the end of a sentence and of a line: so
// does the comment of each fragment of the text.
func remarks(text string) (out []string) {
	part := ""
	for line := range strings.Lines(leadingComments.FindString(text)) {
		if part += line; strings.HasSuffix(line, ".\n") {
			out, part = append(out, part), ""
		}
	}
	if part != "" {
		out = append(out, part)
	}
	return out
}

// printer writes statements under their names.
type printer struct {
	now    *regexp.Regexp // the database's clock
	shared []remark       // which are left out
	terms  *strings.Replacer
	b      strings.Builder
}

// withoutShared returns a text without the remarks that the page has at its top.
func (p *printer) withoutShared(text string) string {
	kept := ""
	for _, lines := range remarks(text) {
		if !slices.ContainsFunc(p.shared, func(r remark) bool { return r.lines == lines }) {
			kept += lines
		}
	}
	return kept + leadingComments.ReplaceAllString(text, "")
}

// stateDigit is a comparison with a state or its assignment, and the comment that it may have.
var stateDigit = regexp.MustCompile(`\bstate(?: \+ 0)? (?:=|<>) [0-4]\b(?: /\*)?`)

// newState is the state in a row of an INSERT, which is sent without its name.
var newState = regexp.MustCompile(`(:kind, 0)(, :priority)`)

// named writes a state's name after its number.
func named(comparison string) string {
	if strings.HasSuffix(comparison, "*") {
		return comparison
	}
	return fmt.Sprintf("%s /* %v */", comparison, state.State(comparison[len(comparison)-1]-'0'))
}

// readable returns a text with the clock and the states by their names, and without searches that repeat others.
func (p *printer) readable(text string) string {
	var b strings.Builder
	for line := range strings.Lines(withoutRepeats(p.now.ReplaceAllLiteralString(text, "{now}"))) {
		if !strings.HasPrefix(line, "--") {
			line = stateDigit.ReplaceAllStringFunc(line, named)
			line = newState.ReplaceAllString(line, "$1 /* CREATED */$2")
		}
		b.WriteString(line)
	}
	return b.String()
}

// withoutRepeats leaves out the searches for the priorities 2 to 8, which differ from that for 1 in this number alone.
func withoutRepeats(text string) string {
	const union = "UNION ALL "
	searches := strings.Split(text, union)
	for i := 1; i+8 < len(searches); i++ {
		repeats := 0
		for repeats < 7 && sameBut(searches[i+repeats], searches[i+repeats+1], byte('1'+repeats)) {
			repeats++
		}
		if repeats == 7 {
			one := searches[i]
			indent := one[strings.LastIndex(one, "\n")+1:]
			searches[i] += "-- and so on for the priorities 2 to 8\n" + indent
			searches = slices.Delete(searches, i+1, i+8)
		}
	}
	return strings.Join(searches, union)
}

// sameBut reports whether b is a with the next digit in some places of digit.
func sameBut(a, b string, digit byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && (a[i] != digit || b[i] != digit+1) {
			return false
		}
	}
	return true
}

// statement writes a statement under its name, with its purpose, the dialect's comments, and its text.
func (p *printer) statement(s statement) {
	fmt.Fprintf(&p.b, "\n-- ==== %s ====\n%s\n", title(s.name), commentLines(p.terms.Replace(s.comment)))
	texts := s.texts
	if s.batch.SQL != "" {
		texts = []string{p.batch(s.batch)}
	}
	for _, text := range texts {
		text = p.terms.Replace(p.withoutShared(text))
		if s.name != "Now" {
			text = p.readable(text)
		}
		p.b.WriteString(sqlrun.Terminated(text))
	}
}

// batch returns the text of a batch, with a comment on its rows.
func (p *printer) batch(b dialect.Batch) string {
	rows, text := fmt.Sprintf("-- At most %d rows.\n", b.Max), b.SQL
	if b.Max == 1 {
		rows = "-- One row at a time.\n"
	}
	separator := sqlrun.Separator(b)
	switch {
	case strings.HasPrefix(separator, "\n"):
		text = strings.Replace(text, "{rows}", "-- for each row:"+separator+b.Row, 1)
	case b.Row != "":
		rows = fmt.Sprintf("-- {rows} is a list of at most %d of these, separated by %q:\n%s\n",
			b.Max, separator, wrapped(p.readable(b.Row), "--  "))
	}
	body := strings.TrimLeft(leadingComments.ReplaceAllString(text, ""), "\n")
	return leadingComments.FindString(text) + rows + body
}

// leadingComments are the lines of comment that a text begins with.
var leadingComments = regexp.MustCompile(`^(?:--.*\n)*`)
