package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeListsEveryRoute checks that the table of the README has each route of the console, and tests that exist.
func TestReadmeListsEveryRoute(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	names := func(pattern, text string) (out []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	readme := read("README.md")
	routes := names(`"((?:GET|POST) /[^"]*)"`, read("../console.go")+read("../visit.go"))
	if len(routes) < 30 {
		t.Fatalf("only %d routes are found", len(routes))
	}
	for _, route := range routes {
		short := strings.TrimSuffix(strings.Replace(route, "/db/{database}", "", 1), "{$}")
		if !strings.Contains(readme, "`"+short+"`") {
			t.Errorf("the table lacks `%s`", short)
		}
	}
	var tests []string
	for _, folder := range []string{".", ".."} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			tests = append(tests, names(`(?m)^func (Test\w+)`, read(file))...)
		}
	}
	for _, test := range names("`(Test\\w+)`", readme) {
		if !slices.Contains(tests, test) {
			t.Errorf("there is no test %s", test)
		}
	}
}
