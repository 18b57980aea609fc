package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of what a person wrote. A tab counts as one column.
const (
	maxColumns = 120
	maxLines   = 400 // of a file of code; a page of documentation is as long as its reader's question
)

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
	code := slices.Contains([]string{".go", ".sh", ".mjs", ".py"}, ext) || file == ".ci/run" || file == "Makefile"
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
	generated := sql && strings.HasPrefix(file, "docs/")
	if n := strings.Count(content, "\n"); (code || sql) && !generated && n > maxLines {
		return fmt.Sprintf("%d lines, over %d", n, maxLines)
	}
	return ""
}

// unbreakable reports whether Markdown leaves no place to break the line: a row of a table, or one long word.
func unbreakable(line string) bool {
	return strings.HasPrefix(line, "|") || strings.HasPrefix(line, "[![") ||
		!strings.Contains(strings.TrimLeft(line, " -*"), " ")
}
