package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// foreign matches lines of go.sum that an application on SQLite has no use for. What the tests of other modules import
// counts as well, since it is downloaded. The drivers that sqlx's own tests use cannot be kept out
// (go-sql-driver/mysql, lib/pq, go-sqlite3); none of them is compiled.
var foreign = regexp.MustCompile(`(?m)^.*(/(pgx|go-ora|testcontainers-go|docker|moby|prometheus)[/ ]|opentelemetry).*$`)

// TestThinModule builds an application that imports dbq and one dialect, and reads its go.sum.
func TestThinModule(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy downloads what is not in the module cache")
	}
	root, err := filepath.Abs(repository)
	check.OK(t, err)
	dir := t.TempDir()
	program := "package main\n\nimport (\n"
	for _, p := range []string{"", "/dialect/sqlite", "/worker"} {
		program += "\t_ \"" + module + p + "\"\n"
	}
	check.OK(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program+")\n\nfunc main() {}\n"), 0o600))
	for _, args := range []string{
		"mod init example.com/thin",
		"mod edit -require " + module + "@v0.0.0 -replace " + module + "=" + root,
		"mod tidy",
		"build -o " + os.DevNull + " .",
	} {
		cmd := exec.Command("go", strings.Fields(args)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args, err, out)
		}
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	check.OK(t, err)
	for _, line := range foreign.FindAllString(string(sum), -1) {
		t.Errorf("go.sum of an application on SQLite has %s", line)
	}
}
