package rules

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

var (
	// goBlock matches a block of Go on a page, with the mark before it if go generate makes it.
	goBlock = regexp.MustCompile("(?ms)^(<!-- (?:code|file): [^\n]* -->\n)?```go\n(.*?)^```$")
	// qualifier matches a name that may be a package's.
	qualifier = regexp.MustCompile(`\b([a-z]\w*)\.[A-Z]`)
	// readersOwn matches the errors of code that lacks the reader's own names, or its end.
	readersOwn = regexp.MustCompile(`^(undefined: \w+|declared and not used: .*|".*" imported and not used.*|` +
		`missing return|missing function body)$`)
)

// given declares the variables that pages use without declaring them.
const given = `import ("context"; "github.com/dbq-go/dbq")
var (ctx context.Context; client, c, other *dbq.Client; q *dbq.Queue)
`

// TestCodeOfPages type-checks the blocks of Go that are written by hand: what they use of dbq and of the standard
// library exists. A block may use names of the reader's that it does not declare.
func TestCodeOfPages(t *testing.T) {
	byName, exports := exportData(t)
	files, blocks := token.NewFileSet(), 0
	from := importer.ForCompiler(files, "gc", func(name string) (io.ReadCloser, error) {
		if exports[name] == "" {
			return nil, errors.New("add it to the packages of exportData")
		}
		return os.Open(exports[name])
	})
	sources(t, func(file string, content []byte) {
		if path.Ext(file) != ".md" {
			return
		}
		for _, at := range goBlock.FindAllSubmatchIndex(content, -1) {
			if at[2] >= 0 {
				continue
			}
			blocks++
			line := fmt.Sprintf("\n//line %s:%d\n", file, 1+bytes.Count(content[:at[4]], []byte("\n")))
			f, err := parsed(files, byName, string(content[at[4]:at[5]]), line)
			if err != nil {
				t.Error(err)
				continue
			}
			conf := types.Config{Importer: from, Error: func(err error) {
				if e := err.(types.Error); !readersOwn.MatchString(e.Msg) {
					t.Error(err)
				}
			}}
			_, _ = conf.Check("p", files, []*ast.File{f}, nil) // Error gets the errors
		}
	})
	if blocks < 20 {
		t.Errorf("found only %d blocks", blocks)
	}
}

// parsed parses a block that is a file, declarations or statements. line is the directive with the place of its first
// line.
func parsed(files *token.FileSet, byName map[string]string, block, line string) (*ast.File, error) {
	if strings.HasPrefix(block, "package ") {
		return parser.ParseFile(files, "", line+block, 0)
	}
	head, imported := "package p\n", map[string]bool{"context": true, "dbq": true, "client": true}
	for _, m := range qualifier.FindAllStringSubmatch(block, -1) {
		if name := m[1]; byName[name] != "" && !imported[name] {
			head += fmt.Sprintf("import %q\n", byName[name])
			imported[name] = true
		}
	}
	head += given
	if f, err := parser.ParseFile(files, "", head+line+block, 0); err == nil {
		return f, nil
	}
	return parser.ParseFile(files, "", head+"func _() error {"+line+block+"\n}", 0)
}

// exportData returns the packages that pages use: their paths by name, and the files with their types by path.
func exportData(t *testing.T) (byName, exports map[string]string) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.Name}} {{.ImportPath}} {{.Export}}",
		"os/signal", ".", "./admin", "./auth", "./bridge", "./client", "./console", "./dialect", "./internal/access",
		"./schedule", "./worker", "./workflow")
	list.Dir = repository
	out, err := list.Output()
	check.OK(t, err)
	byName, exports = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(out)) {
		var name, from, export string
		_, _ = fmt.Sscan(line, &name, &from, &export) // unsafe has no export
		exports[from] = export
		ours, standard := strings.HasPrefix(from, "github.com/dbq-go/dbq"), !strings.Contains(from, ".")
		internal := strings.Contains(from, "internal/") && name != "core" // which docs/architecture.md shows
		if (ours || standard && byName[name] == "") && !internal {
			byName[name] = from
		}
	}
	return byName, exports
}
