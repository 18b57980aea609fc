package batch

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// recorder runs nothing, notes what it was told to run, and answers as a test wants.
type recorder struct {
	dialect.Runner
	ran     []string
	rows    map[string][]dialect.Row // what a batch returns, by its text
	touched map[string]int64         // how many rows it touches
	failing string                   // the text that fails
}

var errFailing = errors.New("it failed")

func (r *recorder) note(text string) error {
	r.ran = append(r.ran, text)
	if text == r.failing {
		return errFailing
	}
	return nil
}

func (r *recorder) QueryBatch(_ context.Context, _ dialect.Conn, b dialect.Batch, _ dialect.Args, _ int) (
	[]dialect.Row, error,
) {
	return r.rows[b.SQL], r.note(b.SQL)
}

func (r *recorder) ExecBatch(_ context.Context, _ dialect.Conn, b dialect.Batch, _ dialect.Args, _ int) (int64, error) {
	return r.touched[b.SQL], r.note(b.SQL)
}

// conn notes what does not go through the session.
type conn struct {
	dialect.Conn
	r *recorder
}

func (c conn) Exec(_ context.Context, query string, _ ...any) (int64, error) {
	return 0, c.r.note(strings.ToLower(strings.TrimSuffix(query, " dbq_batch")))
}

var (
	change = dialect.Batch{SQL: "change", Max: 10}
	lock   = dialect.Batch{SQL: "lock", Max: 10}
	after  = dialect.Batch{SQL: "after", Max: 10}
	a, b   = dialect.Row{ID: uuid.UUID{1}}, dialect.Row{ID: uuid.UUID{2}}
)

func TestRowsWithoutReturning(t *testing.T) {
	t.Parallel()
	type way func(ctx context.Context, s *dialect.Session, c dialect.Conn) (dialect.Changed, error)
	locked := func(ctx context.Context, s *dialect.Session, c dialect.Conn) (dialect.Changed, error) {
		return Locked(ctx, s, c, lock, change, nil, 2)
	}
	counted := func(ctx context.Context, s *dialect.Session, c dialect.Conn) (dialect.Changed, error) {
		return Counted(ctx, s, c, lock, change, nil, 2)
	}
	then := func(ctx context.Context, s *dialect.Session, c dialect.Conn) (dialect.Changed, error) {
		return Then(ctx, s, c, change, after, nil, 2)
	}
	skipping := func(given int64) way {
		args := dialect.Args{"id": dialect.Col[uuid.UUID]{a.ID, b.ID}, "reused": dialect.Col[int64]{0, given}}
		return func(ctx context.Context, s *dialect.Session, c dialect.Conn) (dialect.Changed, error) {
			return Skipping(ctx, s, c, change, after, args, 2)
		}
	}
	const save, back = "savepoint", "rollback to savepoint"
	both, none := []dialect.Row{a, b}, dialect.Changed{}
	for name, x := range map[string]struct {
		way     way
		rows    []dialect.Row // that lock or after returns
		touched int64
		failing string
		want    dialect.Changed
		ran     []string
	}{
		"locked":              {locked, both, 2, "", dialect.Changed{Rows: both}, []string{"lock", "change"}},
		"nothing to lock":     {locked, nil, 0, "", none, []string{"lock"}},
		"a change that fails": {locked, both, 0, "change", dialect.Changed{Rows: both}, []string{"lock", "change"}},
		"all are counted":     {counted, nil, 2, "", dialect.Changed{All: true}, []string{save, "change"}},
		"the count is short": {counted, both[1:], 1, "", dialect.Changed{Rows: both[1:]},
			[]string{save, "change", back, "lock", "change"}},
		"a count that fails":  {counted, both, 2, "change", none, []string{save, "change"}},
		"no savepoint":        {counted, both, 2, save, none, []string{save}},
		"it cannot be undone": {counted, both, 1, back, none, []string{save, "change", back}},
		"read afterwards":     {then, both, 0, "", dialect.Changed{Rows: both}, []string{"change", "after"}},
		"nothing to read":     {then, both, 0, "change", none, []string{"change"}},
		"new, and all added":  {skipping(0), nil, 2, "", dialect.Changed{All: true}, []string{"change"}},
		"new, and one added": {skipping(0), both[1:], 1, "", dialect.Changed{Rows: both[1:]},
			[]string{"change", "after"}},
		"given, and all added":  {skipping(1), nil, 2, "", dialect.Changed{All: true}, []string{save, "change"}},
		"given, and none added": {skipping(1), nil, 0, "", none, []string{save, "change"}},
		"given, and one added": {skipping(1), nil, 1, "", dialect.Changed{Rows: both},
			[]string{save, "change", back, "change", "change"}},
		"given, and none undone": {skipping(1), nil, 1, back, none, []string{save, "change", back}},
	} {
		r := &recorder{rows: map[string][]dialect.Row{"lock": x.rows, "after": x.rows},
			touched: map[string]int64{"change": x.touched}, failing: x.failing}
		got, err := x.way(t.Context(), &dialect.Session{Runner: r}, conn{r: r})
		if (err != nil) != (x.failing != "") || !reflect.DeepEqual(got, x.want) || !slices.Equal(r.ran, x.ran) {
			t.Errorf("%s: got %+v %v by %v, want %+v by %v", name, got, err, r.ran, x.want, x.ran)
		}
	}
}

func TestAddFailsUnlessItAddsAll(t *testing.T) {
	t.Parallel()
	for touched, good := range map[int64]bool{2: true, 1: false, 0: false} {
		r := &recorder{touched: map[string]int64{"change": touched}}
		got, err := Add(t.Context(), &dialect.Session{Runner: r}, conn{r: r}, change, nil, 2)
		if got.All != good || (err == nil) != good {
			t.Errorf("%d of 2 rows: got %+v %v", touched, got, err)
		}
	}
}
