package rules

import (
	"bytes"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/dbq-go/dbq"

// layers lists the packages from the bottom up, as docs/architecture.md shows them. A package may import the packages
// of lower layers, and the ones before it in its own. A new package is added to a layer. "." is the root, "x/..." is x
// and everything below it.
var layers = []string{
	"state internal/check",
	// Below all of internal/: what a dialect of another module cannot import, dbq's own do not need either.
	"dialect dialect/kit dialect/kit/batch dialect/kit/search dialect/mysql dialect/oracle dialect/postgres " +
		"dialect/sqlite examples/acme",
	"internal/dsnredact internal/jsonpath internal/sqlrun dialect/internal/dialecttest internal/querycount",
	"internal/errs internal/duration internal/bounds internal/series internal/store",
	"internal/wake internal/control internal/core internal/maintenance",
	". internal/access internal/invoke",
	"admin schedule worker workflow",
	"internal/wire client bridge",
	"internal/callers auth auth/oidc redaction internal/disclosure",
	"api console internal/sample",
	"dbqtest telemetry/prom telemetry/tracing conformance/internal/... conformance/cases conformance " +
		"conformance/engines conformance/clusters",
	"cmd/dbq internal/gen ci/... examples/quickstart examples/service examples/recipes",
}

// reserved lists imports that only some packages may have. The first row that matches counts. Each module of others
// needs a row; packages of this module without one are open to every higher layer. Tests are free.
var reserved = []struct{ imports, onlyIn string }{
	// An application gets the driver of its own engine only.
	{"dialect/sqlite", "dbqtest conformance/engines cmd/dbq internal/gen examples/quickstart examples/service"},
	{"dialect/mysql dialect/postgres", "conformance/engines conformance/clusters cmd/dbq internal/gen"},
	{"dialect/oracle", "conformance/engines cmd/dbq internal/gen"},
	{"modernc.org/sqlite", "dialect/sqlite examples/acme"},
	{"github.com/go-sql-driver/mysql", "dialect/mysql"},
	{"github.com/jackc/pgx/v5", "dialect/postgres conformance/engines"},
	{"github.com/sijms/go-ora/v2", "dialect/oracle"},

	// The helpers of dialects. The core shares a few: it waits for the writer, tracks connections, and sorts rows.
	{"dialect/kit", "dialect/... internal/sqlrun internal/store examples/acme"},
	{"dialect/kit/batch dialect/kit/search", "dialect/... examples/acme"},

	{"dialect/internal/dialecttest internal/check", "(tests)"},
	{"github.com/google/uuid", ". dialect/... internal/... admin schedule worker workflow auth api bridge client " +
		"console conformance/... cmd/dbq examples/..."},
	{"github.com/jmoiron/sqlx", ". internal/... conformance/cases"},
	{"github.com/coreos/go-oidc/v3", "auth/oidc"},
	{"github.com/robfig/cron/v3", "schedule"},
	{"github.com/sony/gobreaker/v2", "bridge"},
	{"github.com/spf13/cobra github.com/spf13/pflag", "cmd/dbq"},
	{"github.com/prometheus/client_golang", "telemetry/prom cmd/dbq"},
	{"go.opentelemetry.io/otel", "telemetry/tracing"},
	{"github.com/danielgtaylor/huma/v2", "api"},
	{"go.yaml.in/yaml/v3", "cmd/dbq"},
	{"golang.org/x/time", "auth internal/callers"},
	{"golang.org/x/text", "cmd/dbq"},
	{containers, "conformance/engines"},
}

// containers are modules that no test outside conformance/engines may import either: they would enter the go.sum of
// every application.
const containers = "github.com/testcontainers/... github.com/docker/... github.com/moby/..."

// modules are folders with modules of their own.
var modules = []string{"bench/", "console/browser/"}

func TestImports(t *testing.T) {
	sources(t, func(file string, content []byte) {
		elsewhere := slices.ContainsFunc(modules, func(folder string) bool { return strings.HasPrefix(file, folder) })
		if path.Ext(file) != ".go" || elsewhere {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, bytes.NewReader(content), parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if problem := refused(path.Dir(file), imported, strings.HasSuffix(file, "_test.go")); problem != "" {
				t.Errorf("%s imports %q: %s", file, imported, problem)
			}
		}
		if place(path.Dir(file)) == nil {
			t.Errorf("%s: package %s is in no layer; add it to layers in ci/rules/imports_test.go", file, path.Dir(file))
		}
	})
}

// refused reports why a package may not import another one, or "".
func refused(from, imported string, inTest bool) string {
	to, ours := directory(imported)
	switch {
	case !ours && !strings.Contains(strings.SplitN(to, "/", 2)[0], "."):
		return "" // the standard library
	case inTest && !matches(to, containers):
		return ""
	}
	for _, row := range reserved {
		if !matches(to, row.imports) {
			continue
		}
		if !matches(from, row.onlyIn) {
			return "allowed only in " + row.onlyIn
		}
		return above(from, to, ours)
	}
	if !ours {
		return "a new module needs a row in reserved"
	}
	return above(from, to, ours)
}

// above reports that a package of this module is not below the one that imports it, or "".
func above(from, to string, ours bool) string {
	if ours && slices.Compare(place(to), place(from)) >= 0 {
		return "a package may import lower layers, and what stands before it in its own, only"
	}
	return ""
}

// place is a package's layer and its position in the layer, or nil if it is in none.
func place(directory string) []int {
	for layer, names := range layers {
		for at, name := range strings.Fields(names) {
			if matches(directory, name) {
				return []int{layer, at}
			}
		}
	}
	return nil
}

// directory is an import path as the tables here write it, and whether it is of this module.
func directory(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	rest, ours := strings.CutPrefix(imported, module+"/")
	return rest, ours
}

// matches reports whether one of the patterns names the package. The name of a module of others includes its packages.
func matches(name, patterns string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(pattern string) bool {
		prefix, below := strings.CutSuffix(pattern, "/...")
		foreign := strings.Contains(strings.SplitN(prefix, "/", 2)[0], ".") && prefix != "."
		return name == prefix || (below || foreign) && strings.HasPrefix(name, prefix+"/")
	})
}

func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		from, imported string
		inTest, ok     bool
	}{
		{".", module + "/dialect", false, true},
		{"dialect", module, false, false},
		{"dialect/mysql", module + "/dialect/sqlite", false, false},
		{"worker", module + "/dialect/sqlite", false, false},
		{"worker", module + "/dialect/sqlite", true, true},
		{"state", "fmt", false, true},
		{"worker", "github.com/jackc/pgx/v5/pgconn", false, false},
		{"dialect/postgres", "github.com/jackc/pgx/v5/pgconn", false, true},
		{"dialect/postgres", "github.com/testcontainers/testcontainers-go", true, false},
		{"worker", "example.com/new", false, false},
		{"dialect/mysql", module + "/dialect/internal/dialecttest", false, false},
		{"dialect/mysql", module + "/dialect/kit/batch", false, true},
		{"dialect/mysql", module + "/dialect/kit", false, true},
		{"dialect", module + "/dialect/kit", false, false},
		{"worker", module + "/dialect/kit", false, false},
		{"internal/store", module + "/dialect/kit/batch", false, false},
		{"dialect/postgres", module + "/internal/sqlrun", false, false},
		{"examples/acme", module + "/internal/dsnredact", false, false},
		{"dialect", "github.com/jmoiron/sqlx", false, false},
		{"workflow", module + "/admin", false, true},
		{"admin", module + "/workflow", false, false},
	} {
		if problem := refused(c.from, c.imported, c.inTest); (problem == "") != c.ok {
			t.Errorf("%s imports %s (in a test: %t): got %q", c.from, c.imported, c.inTest, problem)
		}
	}
}
