package kit

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

// ReadSchema reads the steps of a schema from the files of a directory, in order. The name of a file is the version and
// the title of its step, as in 001_tasks.sql. Versions are 0, 1, 2 and so on. Each statement ends with a semicolon at
// the end of a line, and CREATE TRIGGER with a line END; of its own. Lines that begin with -- are comments on the
// next statement. fill replaces the placeholders in the texts; see dialect.Names.Filler. ReadSchema omits a statement
// with {schema} if n has none.
//
// A step that has been released never changes, so its file names no Go constant. ReadSchema panics if the files are not
// as described, which is a programming error.
func ReadSchema(files fs.FS, n dialect.Names, fill func(string) string) []dialect.Migration {
	paths, err := fs.Glob(files, "schema/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	var out []dialect.Migration
	for _, path := range paths {
		m := dialect.Migration{Version: len(out)}
		number, title, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(path, "schema/"), ".sql"), "_")
		if version, err := strconv.Atoi(number); !found || err != nil || version != m.Version {
			panic(fmt.Sprintf("kit: %s is not the step %d of a schema", path, m.Version))
		}
		m.Title = strings.ReplaceAll(title, "_", " ")
		text, err := fs.ReadFile(files, path)
		if err != nil {
			panic(err)
		}
		readStep(&m, string(text), fill, n.Schema != "")
		out = append(out, m)
	}
	return out
}

// readStep splits a file of SQL into its statements, without their semicolons, and the comments before each. Without a
// schema it omits the statements that name it. The comments of an omitted statement go to the next one.
func readStep(m *dialect.Migration, text string, fill func(string) string, schema bool) {
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
		panic("kit: a statement of the schema has no semicolon: " + strings.Join(lines, "\n"))
	}
}
