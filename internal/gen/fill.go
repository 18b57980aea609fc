package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fillTable replaces what a page has between the two marks with the given name.
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
var codeBlock = regexp.MustCompile("(?s)(<!-- code: (\\S+)([^>]*) -->\n)```go\n.*?```\n")

// fillCode fills a page's code blocks with the declarations that their marks name, with comments. A mark without names
// takes the whole file.
func fillCode(page, root string) (string, error) {
	var failed error
	filled := codeBlock.ReplaceAllStringFunc(page, func(block string) string {
		m := codeBlock.FindStringSubmatch(block)
		code, err := declarations(filepath.Join(root, filepath.FromSlash(m[2])), strings.Fields(m[3]))
		if err != nil {
			failed = err
		}
		return m[1] + "```go\n" + code + "```\n"
	})
	return filled, failed
}

// declarations returns the text of the named declarations of a file. A declaration of several names goes by its first.
func declarations(path string, names []string) (string, error) {
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
		texts[name] = string(source[files.Position(from).Offset:files.Position(d.End()).Offset])
	}
	var out []string
	for _, name := range names {
		text, ok := texts[name]
		if !ok {
			return "", fmt.Errorf("%s declares no %s", path, name)
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n\n") + "\n", nil
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
