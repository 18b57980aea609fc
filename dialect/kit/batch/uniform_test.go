package batch

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// fill is a column of n equal values, each pointer to a value of its own.
func fill[T any](n int, v func() T) dialect.Col[T] {
	col := make(dialect.Col[T], n)
	for i := range col {
		col[i] = v()
	}
	return col
}

func constant[T any](v T) func() T { return func() T { return v } }
func pointer[T any](v T) func() *T { return func() *T { return &v } }

func TestUniformInsert(t *testing.T) {
	t.Parallel()
	const n = 3
	tasks := func() dialect.Args {
		return dialect.Args{
			"queue": "q", "now": nil, "id": make(dialect.Col[uuid.UUID], n), "payload": make(dialect.Col[[]byte], n),
			"payload_size": make(dialect.Col[*int64], n),
			"reference":    make(dialect.Col[*string], n), "reused": make(dialect.Col[int64], n),
			"task_key": make(dialect.Col[*string], n),
			"kind":     fill(n, constant("k")), "priority": fill(n, constant(int64(5))),
			"max_attempts": fill(n, constant(int64(9))), "delay": fill(n, constant(int64(0))),
			"at": fill(n, pointer(int64(7))), "headers": fill(n, pointer("{}")),
		}
	}
	got := UniformInsert(tasks())
	if got["kind"] != "k" || *got["at"].(*int64) != 7 || !reflect.DeepEqual(got["id"], tasks()["id"]) {
		t.Fatalf("got %v", got)
	}
	for name, change := range map[string]func(dialect.Args){
		"key":           func(a dialect.Args) { a["task_key"].(dialect.Col[*string])[2] = new(string) },
		"reference":     func(a dialect.Args) { a["reference"].(dialect.Col[*string])[2] = new(string) },
		"a given id":    func(a dialect.Args) { a["reused"].(dialect.Col[int64])[1] = 1 },
		"kind":          func(a dialect.Args) { a["kind"].(dialect.Col[string])[1] = "" },
		"priority":      func(a dialect.Args) { a["priority"].(dialect.Col[int64])[2] = 4 },
		"attempts":      func(a dialect.Args) { a["max_attempts"].(dialect.Col[int64])[2] = 4 },
		"delay":         func(a dialect.Args) { a["delay"].(dialect.Col[int64])[2] = 4 },
		"time":          func(a dialect.Args) { a["at"].(dialect.Col[*int64])[2] = new(int64) },
		"no time":       func(a dialect.Args) { a["at"].(dialect.Col[*int64])[2] = nil },
		"only one time": func(a dialect.Args) { a["at"] = dialect.Col[*int64]{nil, nil, new(int64)} },
		"headers":       func(a dialect.Args) { a["headers"].(dialect.Col[*string])[1] = nil },
	} {
		args := tasks()
		change(args)
		if got := UniformInsert(args); got != nil {
			t.Errorf("%s differs: the rows are uniform: %v", name, got)
		}
	}
}

// settlements are rows of dialect.Settle under fences, each of which completes without a result, but for some.
func settlements(fences []int64, failed, results []int) dialect.Args {
	n := len(fences)
	ids, to := make(dialect.Col[uuid.UUID], n), fill(n, constant(int64(state.Completed)))
	result := make(dialect.Col[[]byte], n)
	for i := range ids {
		ids[i] = uuid.UUID{byte(i), 1}
	}
	for _, i := range failed {
		to[i] = int64(state.Error)
	}
	for _, i := range results {
		result[i] = []byte{}
	}
	return dialect.Args{"id": ids, "fence": dialect.Col[int64](fences), "state": to, "result": result, "lock_wait": nil}
}

func TestUniformSettlementsHaveAStatementForEachFence(t *testing.T) {
	t.Parallel()
	under := func(fence int64, n int) []int64 { return slices.Repeat([]int64{fence}, n) }
	for name, x := range map[string]struct {
		op   dialect.Op
		args dialect.Args
		want []string // the statements, by fence and number of rows
	}{
		"few":                {dialect.Settle, settlements(under(1, 15), nil, nil), []string{"plain 15"}},
		"all under one":      {dialect.Settle, settlements(under(1, 16), nil, nil), []string{"1: 16"}},
		"some failed":        {dialect.Settle, settlements(under(1, 18), []int{0, 9}, nil), []string{"plain 2", "1: 16"}},
		"too many failed":    {dialect.Settle, settlements(under(1, 16), []int{3}, nil), []string{"plain 16"}},
		"some have a result": {dialect.Settle, settlements(under(1, 17), nil, []int{5}), []string{"plain 1", "1: 16"}},
		"two fences and few of a third": {
			dialect.Settle, settlements(slices.Concat(under(2, 20), under(3, 5), under(1, 16)), nil, nil),
			[]string{"plain 5", "1: 16", "2: 20"},
		},
		"removed, whatever the result": {dialect.Remove, settlements(under(4, 16), nil, []int{1}), []string{"4: 16"}},
	} {
		n := len(x.args["id"].(dialect.Col[uuid.UUID]))
		for _, all := range []bool{true, false} {
			var ran []string
			part := func(what string, args dialect.Args, n int) (out dialect.Changed, err error) {
				ran = append(ran, fmt.Sprintf("%s %d", what, n))
				if all {
					return dialect.Changed{All: true}, nil
				}
				for _, id := range args["id"].(dialect.Col[uuid.UUID])[1:] { // all but the first
					out.Rows = append(out.Rows, dialect.Row{ID: id})
				}
				return out, nil
			}
			parts := Split(x.op, x.args, n)
			got, err := parts.Run(
				func(args dialect.Args, n int) (dialect.Changed, error) { return part("plain", args, n) },
				func(args dialect.Args, n int) (dialect.Changed, error) {
					return part(fmt.Sprint(args["fence"], ":"), args, n)
				})
			changed := len(got.Rows)
			if got.All {
				changed = n
			}
			want := n
			if !all {
				want -= len(x.want)
			}
			if err != nil || changed != want || !slices.Equal(ran, x.want) || parts.Statements(500) != len(x.want) {
				t.Errorf("%s, all: %v: %d of %d rows changed by %v (%v), %d statements were foretold, want %d by %v",
					name, all, changed, n, ran, err, parts.Statements(500), want, x.want)
			}
		}
	}
}

func TestRowsOfUniformSettlementsHaveTheirFenceAndState(t *testing.T) {
	t.Parallel()
	args := settlements(slices.Repeat([]int64{7}, 20), []int{3}, nil)
	fails := func(args dialect.Args, _ int) (dialect.Changed, error) {
		id := args["id"].(dialect.Col[uuid.UUID])[0]
		return dialect.Changed{Rows: []dialect.Row{{ID: id, Fence: 7, State: state.Poison}}}, nil
	}
	got, err := Split(dialect.Settle, args, 20).Run(fails,
		func(dialect.Args, int) (dialect.Changed, error) { return dialect.Changed{All: true}, nil })
	if err != nil || len(got.Rows) != 20 {
		t.Fatalf("got %d rows and %v, want 20", len(got.Rows), err)
	}
	for _, row := range got.Rows {
		want := state.Completed
		if row.ID == (uuid.UUID{3, 1}) {
			want = state.Poison
		}
		if row.Fence != 7 || row.State != want {
			t.Errorf("%v is under fence %d in %v, want 7 and %v", row.ID, row.Fence, row.State, want)
		}
	}
}
