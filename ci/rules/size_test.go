package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns limits the lines that a person wrote. A tab counts as one column.
const maxColumns = 120

func TestSizes(t *testing.T) {
	sources(t, func(file string, content []byte) {
		if problem := oversize(file, string(content)); problem != "" {
			t.Errorf("%s: %s", file, problem)
		}
	})
}

// oversize returns how a file exceeds a limit, or "".
func oversize(file, content string) string {
	ext := path.Ext(file)
	code := slices.Contains([]string{".go", ".sh", ".mjs", ".ts", ".py"}, ext) || file == ".ci/run" || file == "Makefile"
	sql, page := ext == ".sql", ext == ".md" || ext == ".txt"
	switch {
	case !code && !sql && !page && ext != ".yml":
		return ""
	case file == "docs/benchmarks.md": // measured, not written
		return ""
	}
	for i, line := range strings.Split(content, "\n") {
		if n := utf8.RuneCountInString(line); n > maxColumns && !(page && unbreakable(line)) {
			return fmt.Sprintf("line %d has %d columns, over %d", i+1, n, maxColumns)
		}
	}
	return ""
}

// unbreakable reports whether Markdown leaves no place to break the line: a row of a table, or one long word.
func unbreakable(line string) bool {
	return strings.HasPrefix(line, "|") || strings.HasPrefix(line, "[![") ||
		!strings.Contains(strings.TrimLeft(line, " -*"), " ")
}
