package rules

import (
	"flag"
	"fmt"
	"os"
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

// tooLarge lists the files that were over a limit when the limits came. The list only shrinks: a file that is mended
// leaves it, and no other one may join. go generate removes what was mended, and follows a file to another folder; of a
// file that gets another name, change the line by hand.
const tooLarge = "too_large.txt"

//go:generate go test -count=1 -run ^TestSizes$ . -args -prune
var prune = flag.Bool("prune", false, "bring "+tooLarge+" up to date")

func TestSizes(t *testing.T) {
	found := map[string]string{} // the problem of each file
	sources(t, func(file string, content []byte) {
		if problem := oversize(file, string(content)); problem != "" {
			found[file] = problem
		}
	})
	content, err := os.ReadFile(tooLarge)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(content))
	if *prune {
		listed = pruned(t, listed, found)
	}
	for file, problem := range found {
		if !slices.Contains(listed, file) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	for _, file := range listed {
		if found[file] == "" {
			t.Errorf("%s names %s, which is no longer too large, or is gone: go generate ./ci/rules", tooLarge, file)
		}
	}
}

// pruned writes and returns the list without the files that are not in found. A file that is gone is first looked
// for in other folders.
func pruned(t *testing.T, listed []string, found map[string]string) []string {
	t.Helper()
	var kept []string
	for _, file := range listed {
		if found[file] != "" {
			kept = append(kept, file)
			continue
		}
		if _, err := os.Stat(path.Join(repository, file)); err == nil {
			continue
		}
		for other := range found {
			if path.Base(other) == path.Base(file) && !slices.Contains(listed, other) {
				kept = append(kept, other)
			}
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	text := strings.Join(append(kept, ""), "\n")
	if err := os.WriteFile(tooLarge, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return kept
}

// oversize is what of a file is over a limit, or "".
func oversize(file, content string) string {
	ext := path.Ext(file)
	code := slices.Contains([]string{".go", ".sh", ".mjs"}, ext) || file == ".ci/run" || file == "Makefile"
	sql, page := ext == ".sql", ext == ".md"
	switch {
	case !code && !sql && !page && ext != ".yml":
		return ""
	case strings.HasPrefix(file, "docs/reports/") || file == "docs/benchmarks.md": // measured, not written
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
