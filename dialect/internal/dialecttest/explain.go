package dialecttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An Explained statement is one of docs/sql/*-explain.sql.
type Explained struct {
	Name string
	// SQL is the statement with its EXPLAIN, on tables with the test's prefix, and Indexes are those that the page names.
	SQL     string
	Indexes []string
}

// ExplainPage reads the page of an engine, for tables with a prefix. It is called in the directory of a dialect.
func ExplainPage(t *testing.T, engine, prefix string) []Explained {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "sql", engine+"-explain.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var out []Explained
	for block := range strings.SplitSeq(string(text), "\n-- ==== ") {
		name, rest, isStatement := strings.Cut(block, " ====\n")
		if !isStatement {
			continue // the page's introduction
		}
		_, rest, _ = strings.Cut(rest, "-- Index: ")
		indexes, query, _ := strings.Cut(strings.ReplaceAll(rest, "dbq_", prefix), "\n")
		query = strings.TrimSuffix(strings.TrimSpace(query), ";")
		if indexes == "" || !strings.HasPrefix(query, "EXPLAIN") {
			t.Errorf("%s of the page is not as expected: %s", name, block)
		}
		out = append(out, Explained{Name: name, SQL: query, Indexes: strings.Split(indexes, ", ")})
	}
	if len(out) < 5 {
		t.Errorf("the page has %d statements", len(out))
	}
	return out
}
