package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	pathLike = regexp.MustCompile(`^\.?[a-z][\w./-]*\.(go|md|sql|sh|yml|mjs|py|svg)$`)
	goName   = regexp.MustCompile(`\b(dbq|worker|admin|schedule|dialect|conformance|dbqtest)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
)

// goComment is a line of comment.
var goComment = regexp.MustCompile(`(?m)^\s*//.*$`)

// TestLinks checks that the files exist that a page links to or names in backticks. X stands for any engine's
// directory. A name without a directory may be a file of any directory.
func TestLinks(t *testing.T) {
	bases := map[string]bool{}
	sources(t, func(file string, _ []byte) { bases[path.Base(file)] = true })
	sources(t, func(file string, content []byte) {
		if path.Ext(file) != ".md" {
			return
		}
		text := prose(string(content))
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if !exists(path.Join(path.Dir(file), target)) {
				t.Errorf("%s: the link to %s leads nowhere", file, m[1])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			name, _, _ := strings.Cut(m[1], ":")
			known := bases[name] || strings.Contains(name, "/X") || exists(name) || exists(path.Join(path.Dir(file), name))
			if pathLike.MatchString(name) && !known {
				t.Errorf("%s: there is no file %s", file, name)
			}
		}
	})
}

// TestEveryPageIsListed checks that docs/README.md links to each page beside it.
func TestEveryPageIsListed(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(repository, "docs")
	page, err := os.ReadFile(filepath.Join(folder, "README.md"))
	check.OK(t, err)
	listed := map[string]bool{"README.md": true}
	for _, m := range link.FindAllSubmatch(page, -1) {
		listed[string(m[1])] = true
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	check.OK(t, err)
	if len(files) < 20 {
		t.Errorf("found only %d pages", len(files))
	}
	for _, file := range files {
		if name := filepath.Base(file); !listed[name] {
			t.Errorf("docs/README.md does not link to %s: say which question it answers", name)
		}
	}
}

// TestNamesInPages checks that the exported names which pages and comments of other packages mention exist.
func TestNamesInPages(t *testing.T) {
	packages := map[string]map[string]bool{}
	for name, directory := range map[string]string{
		"dbq": ".", "worker": "worker", "admin": "admin", "dialect": "dialect", "conformance": "conformance",
		"dbqtest": "dbqtest", "schedule": "schedule",
	} {
		packages[name] = exported(t, directory)
	}
	sources(t, func(file string, content []byte) {
		text := string(content)
		switch ext := path.Ext(file); {
		case ext == ".go" && !strings.HasSuffix(file, "_test.go"):
			text = strings.Join(goComment.FindAllString(text, -1), "\n")
		case ext != ".md":
			return
		}
		for _, m := range goName.FindAllStringSubmatch(text, -1) {
			names := packages[m[1]]
			if !names[m[2]] || m[3] != "" && !names[m[2]+"."+m[3]] && !names["?"+m[2]] {
				t.Errorf("%s: there is no %s", file, m[0])
			}
		}
	})
}

// prose returns Markdown without its blocks of code.
func prose(text string) string {
	parts := strings.Split(text, "\n```")
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString(parts[i])
	}
	return b.String()
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(repository, filepath.FromSlash(name)))
	return err == nil
}

// exported returns the exported names of a package, and the names of its types' fields and methods as Type.Name. The
// name of a type whose fields are not known here, such as an alias, is there with a ? before it as well.
func exported(t *testing.T, directory string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, directory, "*.go"))
	check.OK(t, err)
	names := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		check.OK(t, err)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addSpec(names, spec)
				}
			}
		}
	}
	return names
}

// receiver returns the type of a method with a dot, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	e := d.Recv.List[0].Type
	for {
		switch inner := e.(type) {
		case *ast.StarExpr:
			e = inner.X
		case *ast.IndexExpr:
			e = inner.X
		case *ast.Ident:
			return inner.Name + "."
		default:
			return ""
		}
	}
}

func addSpec(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch of := s.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		default:
			names["?"+s.Name.Name] = true
			return
		}
		for _, field := range fields.List {
			if len(field.Names) == 0 { // what is embedded has names of its own
				names["?"+s.Name.Name] = true
			}
			for _, n := range field.Names {
				names[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}
