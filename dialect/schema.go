package dialect

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/state"
)

// A Migration is one step of the schema. Its statements run in order, in one transaction if the engine's DDL is
// transactional. Otherwise each of them must be safe to repeat.
type Migration struct {
	Version int
	Title   string
	// Compatible is the oldest version whose programs work with the tables after this step. For a step that adds a
	// nullable column it is the version before. Such programs open, and continue beside newer ones during a rolling
	// deploy. Zero is Version itself.
	Compatible int
	Statements []string
	// Comments explain the statement with the same index, in lines that begin with --. They are printed, but never sent.
	Comments []string
}

// ReadSchema reads the steps of a schema from the files of a directory, in order. The name of a file is the version and
// the title of its step, as in 001_tasks.sql. Versions are 0, 1, 2 and so on. Each statement ends with a semicolon at
// the end of a line, and CREATE TRIGGER with a line END; of its own. Lines that begin with -- are comments on the
// next statement. fill replaces the placeholders in the texts; see Names.Filler. ReadSchema omits a statement with
// {schema} if Names has none.
//
// A step that has been released never changes, so its file names no Go constant. ReadSchema panics if the files are not
// as described, which is a programming error.
func ReadSchema(files fs.FS, n Names, fill func(string) string) []Migration {
	paths, err := fs.Glob(files, "schema/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	var out []Migration
	for _, path := range paths {
		m := Migration{Version: len(out)}
		number, title, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(path, "schema/"), ".sql"), "_")
		if version, err := strconv.Atoi(number); !found || err != nil || version != m.Version {
			panic(fmt.Sprintf("dialect: %s is not the step %d of a schema", path, m.Version))
		}
		m.Title = strings.ReplaceAll(title, "_", " ")
		text, err := fs.ReadFile(files, path)
		if err != nil {
			panic(err)
		}
		m.read(string(text), fill, n.Schema != "")
		out = append(out, m)
	}
	return out
}

// read splits a file of SQL into its statements, without their semicolons, and the comments before each. Without a
// schema it omits the statements that name it. The comments of an omitted statement go to the next one.
func (m *Migration) read(text string, fill func(string) string, schema bool) {
	var lines []string
	comments := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		switch {
		case strings.HasPrefix(line, "--"):
			comments += line + "\n"
		case len(lines) == 0 && line == "":
		default:
			lines = append(lines, line)
		}
		inTrigger := len(lines) > 0 && strings.HasPrefix(lines[0], "CREATE TRIGGER") && line != "END;"
		if !strings.HasSuffix(line, ";") || strings.HasPrefix(line, "--") || inTrigger {
			continue
		}
		statement := strings.TrimSuffix(strings.Join(lines, "\n"), ";")
		if schema || !strings.Contains(statement, "{schema}") {
			m.Statements, m.Comments = append(m.Statements, fill(statement)), append(m.Comments, fill(comments))
			comments = ""
		}
		lines = nil
	}
	if len(lines) > 0 {
		panic("dialect: a statement of the schema has no semicolon: " + strings.Join(lines, "\n"))
	}
}

// tables are the tables and views that a schema may have. {lease} is for engines that keep renewals apart, and
// {enqueue} is the view through which programs in other languages insert tasks.
var tables = []string{"task", "tasks", "enqueue", "lease", "unique_key", "step", "need", "attempt",
	"attempts", "archive", "archived", "kv", "key_rate", "audit", "stat", "migration"}

// Filler returns a function that fills in a text what more gives in pairs of old and new, and:
//
//   - {task} and each other table by its qualified name, {prefix}, {schema}, and {owner}, which stands before a
//     qualified name that is no table's, the prefix included;
//   - {unpaused}, the condition that :queue is neither paused nor has limits;
//   - {exhausted}, the condition on a row whose lease expired that it has no attempt left, and {next_attempt} and
//     {next_lapses}, the values of attempt and lapses when it is taken over (see Row.TakeOver);
//   - {purgeable}, the condition on the rows that Purge removes.
func (n Names) Filler(more ...string) func(text string) string {
	purge, _ := state.Find(state.Purge, state.Operator)
	pairs := []string{"{prefix}", n.Prefix, "{schema}", n.Schema, "{owner}", n.Table(""),
		"{unpaused}", strings.ReplaceAll(unpaused, "{kv}", n.Table("kv")), "{exhausted}", exhausted,
		"{next_attempt}", nextAttempt, "{next_lapses}", nextLapses, "{purgeable}", state.Guard(purge, "due")}
	for _, name := range tables {
		pairs = append(pairs, "{"+name+"}", n.Table(name))
	}
	return strings.NewReplacer(append(pairs, more...)...).Replace
}
