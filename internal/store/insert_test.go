package store

import (
	"maps"
	"slices"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Dialects decide by sqlrun.InsertColumns which rows a shorter statement can insert.
func TestInsertHasTheContractsColumns(t *testing.T) {
	t.Parallel()
	columns := func(args dialect.Args) []string {
		maps.DeleteFunc(args, func(_ string, v any) bool {
			_, isColumn := v.(dialect.Column)
			return !isColumn
		})
		return slices.Sorted(maps.Keys(args))
	}
	b := insertBatch{queue: "q"}
	want := slices.Sorted(slices.Values(append([]string{"payload_size"}, sqlrun.InsertColumns...)))
	if got := columns(b.args([]InsertRow{{Kind: "k"}}, nil)); !slices.Equal(got, want) {
		t.Errorf("an insert has the columns %q, want %q", got, want)
	}
}
