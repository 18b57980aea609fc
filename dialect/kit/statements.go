package kit

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// ReadStatements reads the texts of dialect.Statements from files of SQL, sql/*.sql in a directory. Each text is a
// block of comment lines, SQL, and a semicolon at the end of a line; PL/SQL, which begins with DECLARE or BEGIN, ends
// with a slash on a line of its own. The first comment line is its name. The others are for people: when it runs, which
// index serves it, and why it is written as it is. They are kept before the text and are not sent. The comments of its
// fragments follow them, so word these as comments on the statement. A text without a comment of its own gets none from
// its fragments. The comment on the clock is not repeated.
//
//	-- Remove
//	-- Ends attempts and removes the tasks.
//	-- Runs for each batch of such settlements. Index: the primary key.
//	DELETE FROM {task} WHERE (id, fence) IN ({rows}) AND {held};
//
//	-- Remove row
//	(:id, :fence);
//
//	-- held
//	state = {PROCESSING};
//
// A name is that of a field, or of a field and a word, as in "Remove row" for its Batch.Row and "MigrationLock free"
// for its Lock.Free. "Text ready" and "Batch take" are statements of Private, a plain one and a batch. A name that
// begins with a small letter is a fragment: {held} in a text stands for it, its lines begin in the column of the hole.
// A line "-- with lock = FOR UPDATE" among a text's comments fills {lock} in the fragments that it uses; a line with
// nothing but an empty hole is left out. {each: x} stands for the fragment x for every priority, joined by UNION ALL,
// with the priority for {p}. A state's name stands for its number, with the name as a comment. fill replaces the rest,
// see dialect.Names.Filler.
//
// Batches have at most max rows. ReadStatements panics if the files do not have this form, which is a programming
// error. The caller sets the fields that are not texts.
func ReadStatements(files fs.FS, max int, fill func(string) string) dialect.Statements {
	r := textReader{texts: map[string]sqlText{}}
	r.read(files)
	st := dialect.Statements{Private: map[string]dialect.Batch{}}
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		if name[0] < 'A' || name[0] > 'Z' || strings.HasSuffix(name, " row") {
			continue
		}
		r.set(&st, name, r.batch(name, max, fill))
	}
	return st
}

// batch is a text and its row.
func (r *textReader) batch(name string, max int, fill func(string) string) dialect.Batch {
	b := dialect.Batch{SQL: r.header(name) + fill(r.expand(name, false)), Max: max}
	if _, listed := r.texts[name+" row"]; !listed {
		return b
	}
	b.Row = fill(r.expand(name+" row", true))
	if OnLines(b.Row) {
		before, _, _ := strings.Cut(b.SQL, "{rows}")
		b.Row = strings.ReplaceAll(b.Row, "\n", "\n"+strings.Repeat(" ", column(before)))
	}
	return b
}

// OnLines reports whether each row of a list stands on lines of its own: it begins with OR or BEGIN. See dialect.Batch.
func OnLines(row string) bool {
	return strings.HasPrefix(row, "OR ") || strings.HasPrefix(row, "BEGIN")
}

// column is the column in which a text ends.
func column(text string) int { return len(text) - 1 - strings.LastIndex(text, "\n") }

// set puts a text into its field.
func (r *textReader) set(st *dialect.Statements, name string, b dialect.Batch) {
	name, key, _ := strings.Cut(name, " ")
	field := reflect.ValueOf(st).Elem().FieldByName(name)
	_, twice := st.Private[key]
	switch {
	case twice:
		panic("kit: two statements are called " + key)
	case name == "Text":
		st.Private[key] = dialect.Batch{SQL: b.SQL}
	case name == "Batch":
		st.Private[key] = b
	case !field.IsValid():
		panic("kit: no statement is called " + name)
	case field.Type() == reflect.TypeFor[dialect.Lock]():
		lock := field.Addr().Interface().(*dialect.Lock)
		if key == "" {
			lock.Take = b.SQL
		} else {
			lock.Free = b.SQL
		}
	case field.Kind() == reflect.String:
		field.SetString(b.SQL)
	default:
		field.Set(reflect.ValueOf(b))
	}
}

// sqlText is one text of a file.
type sqlText struct {
	comment []string
	holes   map[string]string // what its lines with "with" fill
	body    string
}

type textReader struct{ texts map[string]sqlText }

// header returns the lines of comment before a text.
func (r *textReader) header(name string) string {
	if len(r.texts[name].comment) == 0 {
		return ""
	}
	seen := map[string]bool{}
	r.comments("Now", nil, seen) // which leaves these out
	return "-- " + strings.Join(r.comments(name, r.texts[name].holes, seen), "\n-- ") + "\n"
}

// comments returns the comments on a text, on its row, and on their fragments, each once. holes are those of the text.
func (r *textReader) comments(name string, holes map[string]string, seen map[string]bool) []string {
	t, found := r.texts[name]
	if !found || seen[name] {
		return nil
	}
	seen[name] = true
	out := slices.Clone(t.comment)
	for _, m := range hole.FindAllStringSubmatch(t.body, -1) {
		value, filled := holes["{"+m[2]+"}"]
		if !filled {
			out = append(out, r.comments(m[2], holes, seen)...)
		}
		for _, inner := range hole.FindAllStringSubmatch(value, -1) {
			out = append(out, r.comments(inner[2], holes, seen)...)
		}
	}
	return append(out, r.comments(name+" row", holes, seen)...)
}

func (r *textReader) read(files fs.FS) {
	paths, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err)
	}
	for _, path := range paths {
		content, err := fs.ReadFile(files, path)
		if err != nil {
			panic(err)
		}
		for block, rest := "", string(content); strings.TrimSpace(rest) != ""; {
			block, rest = cutText(rest)
			r.add(path, strings.TrimSpace(block))
		}
	}
}

// plsql finds that a text with its comments is a block of PL/SQL, whose lines end with semicolons.
var plsql = regexp.MustCompile(`\A\s*(--.*\n)*(DECLARE|BEGIN)\b`)

// cutText splits the first text from a file.
func cutText(file string) (text, rest string) {
	end := ";\n"
	if plsql.MatchString(file) {
		end = "\n/\n"
	}
	text, rest, _ = strings.Cut(file, end)
	return text, rest
}

func (r *textReader) add(path, block string) {
	t := sqlText{holes: map[string]string{}}
	name := ""
	for {
		comment, rest, _ := strings.Cut(block, "\n")
		line, ok := strings.CutPrefix(comment, "--")
		if !ok {
			break
		}
		line, block = strings.TrimSpace(line), rest
		if m := filledHole.FindStringSubmatch(line); m != nil {
			t.holes["{"+m[1]+"}"] = m[2]
		} else if name == "" {
			name = line
		} else {
			t.comment = append(t.comment, line)
		}
	}
	t.body = block
	if _, twice := r.texts[name]; name == "" || block == "" || twice {
		panic(fmt.Sprintf("kit: %s has a text without a name, without SQL, or for a second time: %q",
			path, cmp.Or(name, block)))
	}
	r.texts[name] = t
}

// filledHole is a line of comment that fills a hole.
var filledHole = regexp.MustCompile(`^with (\w+) = ?(.*)$`)

// hole matches a fragment, a state or a placeholder of fill: {name}, or {each: name}.
var hole = regexp.MustCompile(`\{(each: )?([A-Za-z_]+)\}`)

// expand returns a text with its fragments and states. bare leaves out the names of states, for what is sent often.
func (r *textReader) expand(name string, bare bool) string {
	return r.expandText(name, r.texts[name], bare)
}

func (r *textReader) expandText(name string, t sqlText, bare bool) string {
	text := t.body
	for range 10 { // fragments of fragments
		before := text
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			filled := strings.TrimRight(r.fillLine(t, line, bare), " ")
			if filled != "" || line == "" { // a line that had only an empty hole is gone
				lines = append(lines, filled)
			}
		}
		if text = strings.Join(lines, "\n"); text == before {
			return text
		}
	}
	panic("kit: the fragments of " + name + " use each other in a circle")
}

// fillLine fills the holes of a line. The lines of a fragment begin in the column of its hole.
func (r *textReader) fillLine(t sqlText, line string, bare bool) string {
	var b strings.Builder
	last := 0
	for _, at := range hole.FindAllStringIndex(line, -1) {
		b.WriteString(line[last:at[0]])
		fragment := r.fragment(t, line[at[0]:at[1]], bare)
		b.WriteString(strings.ReplaceAll(fragment, "\n", "\n"+strings.Repeat(" ", column(b.String()))))
		last = at[1]
	}
	return b.String() + line[last:]
}

// fragment is the text that replaces a placeholder.
func (r *textReader) fragment(t sqlText, h string, bare bool) string {
	m := hole.FindStringSubmatch(h)
	fragment, found := r.texts[m[2]]
	value, filled := t.holes[h]
	switch {
	case filled:
		return value
	case !found:
		return stateText(h, m[2], bare)
	case m[1] == "":
		return fragment.body
	}
	body := r.expandText(m[2], sqlText{holes: t.holes, body: fragment.body}, bare) // {p} may be in fragments of it
	each := make([]string, 10)
	for p := range each {
		each[p] = strings.ReplaceAll(body, "{p}", fmt.Sprint(p))
	}
	return strings.Join(each, "\nUNION ALL ")
}

// stateText is a state's number for its name, and h for another one.
func stateText(h, name string, bare bool) string {
	for _, s := range state.All() {
		switch {
		case s.String() != name:
		case bare:
			return state.Literals(s)
		default:
			return state.Literals(s) + " /* " + name + " */"
		}
	}
	return h
}
