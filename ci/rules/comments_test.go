package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// groups are fields whose comment is about all fields up to the next empty line.
var groups = map[string]bool{"dialect/row.go WasHolder": true, "internal/sqlrun/texts.go GetKV": true}

// TestDocCommentsBeginWithTheName checks that the doc comment of an exported name begins with that name, or with an
// article and the name, and the comment of a package with Package and its name. The comment of a group of constants or
// variables may begin with anything, and so may the comment of a command.
func TestDocCommentsBeginWithTheName(t *testing.T) {
	t.Parallel()
	sources(t, func(file string, content []byte) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			doc, names := documented(n)
			if doc != nil && len(names) > 0 && !groups[file+" "+names[0]] && !beginsWithName(doc.Text(), names) {
				first, _, _ := strings.Cut(doc.Text(), "\n")
				t.Errorf("%s: the doc comment of %s begins with %q; begin it with the name",
					files.Position(doc.Pos()), names[0], first)
			}
			_, isBody := n.(*ast.BlockStmt)
			return !isBody
		})
	})
}

// documented returns the doc comment of a package, of a declaration, or of a field or method of a type, and its
// exported names.
func documented(n ast.Node) (doc *ast.CommentGroup, exported []string) {
	var names []*ast.Ident
	switch n := n.(type) {
	case *ast.File:
		if n.Name.Name != "main" {
			return n.Doc, []string{"Package " + n.Name.Name}
		}
	case *ast.FuncDecl:
		doc, names = n.Doc, []*ast.Ident{n.Name}
	case *ast.GenDecl:
		if n.Lparen.IsValid() || len(n.Specs) != 1 {
			return nil, nil
		}
		_, exported = documented(n.Specs[0])
		return n.Doc, exported
	case *ast.TypeSpec:
		doc, names = n.Doc, []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		doc, names = n.Doc, n.Names
	case *ast.Field:
		doc, names = n.Doc, n.Names
	}
	for _, name := range names {
		if name.IsExported() {
			exported = append(exported, name.Name)
		}
	}
	return doc, exported
}

// beginsWithName reports whether a comment begins with one of the names, after an article at most.
func beginsWithName(comment string, names []string) bool {
	for _, article := range []string{"A ", "An ", "The "} {
		comment = strings.TrimPrefix(comment, article)
	}
	for _, name := range names {
		if rest, ok := strings.CutPrefix(comment, name); ok && !token.IsIdentifier(rest[:min(1, len(rest))]) {
			return true
		}
	}
	return false
}
