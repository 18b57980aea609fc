// Command gen writes the generated parts of the documentation: the pages about the state machine, the conformance
// suite and each engine's SQL, and blocks of pages that are otherwise written by hand. Run it with go generate ./...
// in the module's root directory. TestGenerated fails if a page is out of date.
//
//	go run ./internal/gen [REPORT.json...]
//
// The counts of reports of the conformance suite, which dbq conform --report json=REPORT.json writes, replace the
// counts of the same product and major version.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/conformance/cases"
)

func main() {
	err := addReports(reportsFile, os.Args[1:])
	if err == nil {
		err = write(".")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// pages returns the contents of the generated files by path. Paths are relative to root, the module's directory.
func pages(root string) (map[string]string, error) {
	states, err := statesPage(filepath.Join(root, "state", "state.go"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{"docs/states.md": states, "docs/conformance.md": cases.Markdown()}
	for _, d := range engines {
		text, err := sqlPage(d)
		if err != nil {
			return nil, err
		}
		out["docs/sql/"+d.Name()+".sql"] = text
		if len(explained[d.Name()]) == 0 {
			continue
		}
		if out["docs/sql/"+d.Name()+"-explain.sql"], err = explainPage(d); err != nil {
			return nil, err
		}
	}
	if err := fillPages(root, out); err != nil {
		return nil, err
	}
	return out, nil
}

// fillPages adds the pages that are written by hand and have generated blocks: tables, the diagram, and code.
func fillPages(root string, out map[string]string) error {
	reports, err := readCounts(filepath.Join(root, filepath.FromSlash(reportsFile)))
	if err != nil {
		return err
	}
	for path, tables := range map[string]map[string]string{
		"README.md":               {"states": diagram(usual, false)},
		"docs/engines.md":         {"reports": reports.table()},
		"docs/getting-started.md": nil,
		"docs/dialect.md":         nil,
		"docs/recipes.md":         nil,
	} {
		page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		text, err := fillCode(string(page), root)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for name, table := range tables {
			if text, err = fillTable(text, name, table); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		if strings.Contains(text, `"github.com/dbq-go/dbq/internal/`) {
			return fmt.Errorf("%s shows code that imports an internal package, which no reader can compile", path)
		}
		out[path] = text
	}
	return nil
}

func write(root string) error {
	out, err := pages(root)
	if err != nil {
		return err
	}
	for path, text := range out {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(path)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fillTable replaces the text of a page between the two marks with the given name.
func fillTable(page, name, table string) (string, error) {
	begin, end := "<!-- "+name+": made by go generate -->\n", "<!-- end of "+name+" -->\n"
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("marks not found: %s%s", begin, end)
	}
	return before + begin + table + end + after, nil
}

// codeBlock matches a block of Go on a page, after a mark that names a file and the declarations to show.
var codeBlock = regexp.MustCompile("(?s)(<!-- (code|file): (\\S+)([^>]*) -->\n)```go\n.*?```\n")

// fillCode fills a page's code blocks with the declarations named by their marks, including comments. A mark without
// names includes the whole file, and "file" instead of "code" a file that has only these declarations.
func fillCode(page, root string) (string, error) {
	var failed error
	filled := codeBlock.ReplaceAllStringFunc(page, func(block string) string {
		m := codeBlock.FindStringSubmatch(block)
		code, err := declarations(filepath.Join(root, filepath.FromSlash(m[3])), strings.Fields(m[4]), m[2] == "file")
		if err != nil {
			failed = err
		}
		return m[1] + "```go\n" + code + "```\n"
	})
	return filled, failed
}

// declarations returns the text of the named declarations of a file, with its package clause and the imports that they
// need if whole is set. A declaration of several names goes by its first.
func declarations(path string, names []string, whole bool) (string, error) {
	source, err := os.ReadFile(path)
	if err != nil || len(names) == 0 {
		return string(source), err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return "", err
	}
	texts := map[string]string{}
	for _, d := range f.Decls {
		name, doc := declared(d)
		from := d.Pos()
		if doc != nil {
			from = doc.Pos()
		}
		texts[name] = string(source[files.Position(from).Offset:files.Position(d.End()).Offset]) + "\n"
	}
	var out []string
	if whole {
		out = append(out, head(f, names))
	}
	for _, name := range names {
		if texts[name] == "" {
			return "", fmt.Errorf("%s does not declare %s", path, name)
		}
		out = append(out, texts[name])
	}
	return strings.Join(out, "\n"), nil
}

// head returns the package clause and the imports of a file that has only the named declarations of f.
func head(f *ast.File, names []string) string {
	used := map[string]bool{"_": true}
	for _, d := range f.Decls {
		if name, _ := declared(d); slices.Contains(names, name) {
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok {
						used[x.Name] = true
					}
				}
				return true
			})
		}
	}
	var standard, others string
	for _, i := range f.Imports {
		quoted, name, prefix := i.Path.Value, path.Base(strings.Trim(i.Path.Value, `"`)), "\t"
		if i.Name != nil {
			name, prefix = i.Name.Name, "\t"+i.Name.Name+" "
		}
		switch line := prefix + quoted + "\n"; {
		case !used[name]:
		case strings.Contains(quoted, "."):
			others += line
		default:
			standard += line
		}
	}
	return fmt.Sprintf("package %s\n\nimport (\n%s\n%s)\n", f.Name.Name, standard, others)
}

// declared returns the first name that a declaration declares, and its comment.
func declared(d ast.Decl) (name string, doc *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name, d.Doc
	case *ast.GenDecl:
		switch spec := d.Specs[0].(type) {
		case *ast.ValueSpec:
			return spec.Names[0].Name, d.Doc
		case *ast.TypeSpec:
			return spec.Name.Name, d.Doc
		}
	}
	return "", nil
}
