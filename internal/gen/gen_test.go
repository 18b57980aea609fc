package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	want, err := pages(root)
	check.OK(t, err)
	for _, path := range slices.Sorted(maps.Keys(want)) {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil || string(got) != want[path] {
			t.Errorf("%s is not what the code says: run go generate ./...", path)
		}
	}
}

func TestGenerateIsDeterministic(t *testing.T) {
	t.Parallel()
	again, err := pages(filepath.Join("..", ".."))
	check.OK(t, err)
	first, err := pages(filepath.Join("..", ".."))
	check.OK(t, err)
	if !maps.Equal(first, again) {
		t.Error("two runs differ")
	}
	for path, text := range first {
		if text == "" {
			t.Errorf("%s is empty", path)
		}
	}
}

func TestCommentsAreOfStatements(t *testing.T) {
	t.Parallel()
	all, pages := "", map[string]string{}
	for _, d := range engines {
		page, err := sqlPage(d)
		check.OK(t, err)
		pages[d.Name()] = page
		all += page
	}
	for name := range purposes {
		page := all
		if own, engine, found := strings.Cut(strings.TrimSuffix(name, ")"), " ("); found {
			name, page = own, pages[engine]
		}
		keys := []string{""} // a map by state or event has one comment for all
		for _, in := range state.All() {
			keys = append(keys, " "+in.String())
		}
		for _, move := range state.ByOperator() {
			keys = append(keys, " "+string(move.Event))
		}
		for _, key := range keys {
			if strings.Contains(page, "\n-- ==== "+title(name)+key+" ====\n") {
				name = ""
				break
			}
		}
		if name != "" {
			t.Errorf("statements.txt has a comment on %q, which no engine has", name)
		}
	}
}

// A comment that begins with Reads, for example, is not on a statement that writes, and one with Leases not on a query.
func TestCommentsSayWhetherStatementsWrite(t *testing.T) {
	t.Parallel()
	reads := regexp.MustCompile(`\A(Finds|Reads|Reports|Counts|Lists)\b`)
	writes := regexp.MustCompile(`\A(Adds|Changes|Leases|Moves|Removes|Renews|Stores)\b`)
	noChange := regexp.MustCompile(`(?m)--.*$|\bFOR UPDATE\b`)
	change := regexp.MustCompile(`\b(INSERT|DELETE|DROP|UPDATE\s+(OR \w+ |/\*.*?\*/ )?(dbq_|\())`)
	for _, d := range engines {
		all, err := statements(d)
		check.OK(t, err)
		for _, s := range all {
			text := strings.Join(append(s.texts, s.batch.SQL, s.batch.Row), "\n")
			changes := change.MatchString(noChange.ReplaceAllLiteralString(text, ""))
			if changes && reads.MatchString(s.comment) || !changes && writes.MatchString(s.comment) {
				t.Errorf("%s: the comment on %q is %q, for %s", d.Name(), s.name, s.comment, text)
			}
		}
	}
}

func TestStateWithoutCommentIsAnError(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "state.go")
	check.OK(t, os.WriteFile(source, []byte("package state\n"), 0o600))
	if _, err := statesPage(source); err == nil {
		t.Error("got no error for a state without a comment")
	}
}
