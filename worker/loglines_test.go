package worker_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// A listed line is a row of the table in docs/log.md.
type listed struct {
	level string
	attrs []string
}

// aboutTask are the attributes that the table abbreviates as *task*.
var aboutTask = []string{"task", "kind", "attempt"}

// listedLines reads the table of all lines, by their text.
func listedLines(t *testing.T) map[string]listed {
	t.Helper()
	b, err := os.ReadFile("../docs/log.md")
	check.OK(t, err)
	lines := map[string]listed{}
	rows := regexp.MustCompile("(?m)^\\| `((?:worker|dbq): [^`]+)` \\| ([A-Z]+) \\| ([a-z_* ]*)\\|")
	for _, row := range rows.FindAllStringSubmatch(string(b), -1) {
		if _, twice := lines[row[1]]; twice {
			t.Errorf("docs/log.md lists %q twice", row[1])
		}
		attrs := strings.Fields(row[3])
		if slices.Contains(attrs, "*task*") {
			attrs = append(attrs, aboutTask...)
		}
		lines[row[1]] = listed{row[2], attrs}
	}
	return lines
}

// literal returns the string that an expression of literals stands for, or "".
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, _ := strconv.Unquote(e.Value)
			return s
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

// loggedLine is the text and the level of a line that an expression logs: a line of this package, or a call of a
// client's logger. For the latter attrs are the keys.
func loggedLine(n ast.Node) (text, level string, attrs []string) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		name, ok := n.Type.(*ast.Ident)
		if !ok || name.Name != "line" || len(n.Elts) != 2 {
			return "", "", nil
		}
		return literal(n.Elts[1]), strings.TrimPrefix(n.Elts[0].(*ast.SelectorExpr).Sel.Name, "Level"), nil
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, f.Sel.Name) {
			return "", "", nil
		}
		for i := 1; i < len(n.Args); i += 2 {
			attrs = append(attrs, literal(n.Args[i]))
		}
		return literal(n.Args[0]), f.Sel.Name, attrs
	}
	return "", "", nil
}

// The table in docs/log.md has each line that dbq logs, with its level, and no other.
func TestEveryLineOfTheLogIsListed(t *testing.T) {
	t.Parallel()
	lines, seen := listedLines(t), map[string]bool{}
	var files []string
	for _, pattern := range []string{"*.go", "../*.go", "../internal/*/*.go"} {
		found, err := filepath.Glob(pattern)
		check.OK(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		check.OK(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			text, level, attrs := loggedLine(n)
			if text == "" {
				return true
			}
			row, ok := lines[text]
			if seen[text] = true; !ok || !strings.EqualFold(row.level, level) {
				t.Errorf("%s logs %q at %s, and docs/log.md lists it at %q", file, text, level, row.level)
			}
			for _, key := range attrs {
				if !slices.Contains(row.attrs, key) {
					t.Errorf("%s logs %q with %s, which docs/log.md does not list", file, text, key)
				}
			}
			return true
		})
	}
	for text := range lines {
		if !seen[text] {
			t.Errorf("docs/log.md lists %q, which nothing logs", text)
		}
	}
}

// wantListed notes a failure for each line whose level or attributes are not in the table.
func (b *logbook) wantListed(t *testing.T) {
	t.Helper()
	lines := listedLines(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		level, text, _ := strings.Cut(l.text, " ")
		row, ok := lines[text]
		if !ok || row.level != level {
			t.Errorf("%q is not listed in docs/log.md", l.text)
		}
		for key := range l.attrs {
			if !slices.Contains(row.attrs, key) {
				t.Errorf("docs/log.md lists %q without %s", text, key)
			}
		}
	}
}
