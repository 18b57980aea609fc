package dialect

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// A Migration is one step of the schema. Its statements run in order in one transaction where the engine's DDL can be
// in one; elsewhere each of them must be safe to run again.
type Migration struct {
	Version int
	Title   string
	// Compatible is the oldest version whose programs work with the tables after this step, such as the version before it
	// for a step that adds a nullable column: they go on beside newer programs during a rolling deploy, and open. Zero is
	// Version itself.
	Compatible int
	Statements []string
}

// ReadSchema reads the steps of a schema from the files of a folder, in order. A file's name is its step's version and
// title, as in 001_tasks.sql; the versions are 0, 1, 2 and so on. Each statement ends with a semicolon at the end of a
// line; a line that begins with -- is a comment. fill replaces what the dialect writes into the texts, see
// Names.Filler; a statement that names {schema} is left out where Names has none.
//
// A step that has been released never changes, so its file names no Go constant. ReadSchema panics when the files are
// not as described, which is a mistake in the program.
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
		for _, statement := range statementsIn(string(text)) {
			if n.Schema != "" || !strings.Contains(statement, "{schema}") {
				m.Statements = append(m.Statements, fill(statement))
			}
		}
		out = append(out, m)
	}
	return out
}

// statementsIn splits a file of SQL into its statements, without their semicolons.
func statementsIn(text string) (out []string) {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "--") || len(lines) == 0 && strings.TrimSpace(line) == "" {
			continue
		}
		line = strings.TrimRight(line, " \r\n")
		end := strings.HasSuffix(line, ";")
		if lines = append(lines, strings.TrimSuffix(line, ";")); end {
			out, lines = append(out, strings.Join(lines, "\n")), nil
		}
	}
	if len(lines) > 0 {
		panic("dialect: a statement of the schema has no semicolon: " + strings.Join(lines, "\n"))
	}
	return out
}

// tables are the tables and views that every schema has; {lease} is for engines that keep renewals apart.
var tables = []string{"task", "tasks", "lease", "attempt", "attempts", "archive", "kv", "migration"}

// Filler returns a function that writes names into a text: {task} and each other table by its qualified name, {prefix},
// {schema}, {owner} (what stands before a qualified name that is no table's, the prefix included), and what more gives
// in pairs of old and new.
func (n Names) Filler(more ...string) func(text string) string {
	pairs := []string{"{prefix}", n.Prefix, "{schema}", n.Schema, "{owner}", n.Table("")}
	for _, name := range tables {
		pairs = append(pairs, "{"+name+"}", n.Table(name))
	}
	return strings.NewReplacer(append(pairs, more...)...).Replace
}
