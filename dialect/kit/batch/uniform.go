package batch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// written are the columns that statements for new rows write. The other columns of an insert must be unset in them, so
// a column that is added to Insert needs no change here.
var written = []string{
	"id", "kind", "priority", "at", "delay", "max_attempts", "headers", "payload", "payload_size",
}

// New reports whether the rows of an insert are certainly new and plain: they have newly generated ids, no reference,
// and nothing else that the statements for new rows do not write.
func New(args dialect.Args) bool {
	for name, v := range args {
		if _, isColumn := v.(dialect.Column); isColumn && !slices.Contains(written, name) && !unset(v) {
			return false
		}
	}
	return true
}

// unset reports whether all values of a column are zero or null.
func unset(col any) bool {
	switch c := col.(type) {
	case dialect.Col[int64]:
		return !slices.ContainsFunc(c, func(v int64) bool { return v != 0 })
	case dialect.Col[*int64]:
		return !slices.ContainsFunc(c, func(v *int64) bool { return v != nil })
	case dialect.Col[*string]:
		return !slices.ContainsFunc(c, func(v *string) bool { return v != nil })
	}
	return false
}

// UniformInsert returns the args of an insert of new rows that share all values except :id, :payload and
// :payload_size; only these are columns. It returns nil for other rows.
func UniformInsert(args dialect.Args) dialect.Args {
	if !New(args) {
		return nil
	}
	out := maps.Clone(args)
	for name, v := range args {
		col, isColumn := v.(dialect.Column)
		if !isColumn || name == "id" || name == "payload" || name == "payload_size" {
			continue
		}
		if !uniform(col) {
			return nil
		}
		out[name] = col.At(0)
	}
	return out
}

// uniform reports whether all values of a column are equal.
func uniform(col dialect.Column) bool {
	switch c := col.(type) {
	case dialect.Col[int64]:
		return allEqual(c)
	case dialect.Col[string]:
		return allEqual(c)
	case dialect.Col[*int64]:
		return allPointEqual(c)
	case dialect.Col[*string]:
		return allPointEqual(c)
	}
	return false
}

func allEqual[T comparable](values []T) bool {
	return !slices.ContainsFunc(values, func(v T) bool { return v != values[0] })
}

func allPointEqual[T comparable](values []*T) bool {
	first := values[0]
	return !slices.ContainsFunc(values, func(v *T) bool {
		return v != first && (v == nil || first == nil || *v != *first)
	})
}

// uniformLeast is the number of uniform rows from which a separate statement pays off.
const uniformLeast = 16

// Parts are the statements that end attempts: one for each group of rows under one fence that complete without a
// result or are removed, and one for the other rows.
type Parts struct {
	op     dialect.Op
	args   dialect.Args
	n      int
	groups []group // ordered by fence, so that two batches lock rows in the same order
	rest   []int   // indexes
}

// group is a set of rows under one fence.
type group struct {
	fence int64
	rows  []int // indexes
}

// Split splits the rows of dialect.Settle or dialect.Remove into parts.
func Split(op dialect.Op, args dialect.Args, n int) Parts {
	p := Parts{op: op, args: args, n: n}
	if n < uniformLeast {
		return p
	}
	fences := args["fence"].(dialect.Col[int64])
	groups := map[int64][]int{}
	for i := range n {
		if op == dialect.Remove || completes(args, i) {
			groups[fences[i]] = append(groups[fences[i]], i)
		} else {
			p.rest = append(p.rest, i)
		}
	}
	for fence, rows := range groups {
		if len(rows) < uniformLeast {
			p.rest = append(p.rest, rows...)
		} else {
			p.groups = append(p.groups, group{fence, rows})
		}
	}
	slices.Sort(p.rest)
	slices.SortFunc(p.groups, func(a, b group) int { return cmp.Compare(a.fence, b.fence) })
	return p
}

// completes reports whether row i of dialect.Settle completes without a result.
func completes(args dialect.Args, i int) bool {
	to, results := args["state"].(dialect.Col[int64]), args["result"].(dialect.Col[[]byte])
	return to[i] == int64(state.Completed) && results[i] == nil
}

// Completes reports whether the first row of dialect.Settle completes without a result.
func Completes(args dialect.Args) bool { return completes(args, 0) }

// Uniform reports whether there is a group of uniform rows.
func (p Parts) Uniform() bool { return len(p.groups) > 0 }

// Statements returns the number of statements for the parts, each with at most most rows.
func (p Parts) Statements(most int) (statements int) {
	if len(p.groups) == 0 {
		return (p.n + most - 1) / most
	}
	for _, g := range p.groups {
		statements += (len(g.rows) + most - 1) / most
	}
	return statements + (len(p.rest)+most-1)/most
}

// RunFunc changes n rows.
type RunFunc func(args dialect.Args, n int) (dialect.Changed, error)

// Run runs plain for the other rows, and then uniform for each group; there :fence is a value and not a column.
func (p Parts) Run(plain, uniform RunFunc) (out dialect.Changed, err error) {
	if len(p.groups) == 0 {
		return plain(p.args, p.n)
	}
	if len(p.rest) > 0 {
		if out, err = plain(Pick(p.args, p.rest), len(p.rest)); err != nil {
			return out, err
		}
		if out.All {
			out = dialect.Changed{Rows: p.given(p.rest)}
		}
	}
	for _, g := range p.groups {
		all := len(g.rows) == p.n
		args := maps.Clone(p.args)
		if !all {
			args = Pick(p.args, g.rows)
		}
		args["fence"] = g.fence
		got, err := uniform(args, len(g.rows))
		if err != nil || all && got.All {
			return got, err
		}
		if got.All {
			got.Rows = p.given(g.rows)
		}
		for i := range got.Rows {
			got.Rows[i].Fence, got.Rows[i].State = g.fence, state.Completed
		}
		out.Rows = append(out.Rows, got.Rows...)
	}
	return out, nil
}

// given returns the rows by the values that identify them.
func (p Parts) given(index []int) []dialect.Row {
	ids, fences := p.args["id"].(dialect.Col[uuid.UUID]), p.args["fence"].(dialect.Col[int64])
	rows := make([]dialect.Row, len(index))
	for k, i := range index {
		rows[k].ID, rows[k].Fence = ids[i], fences[i]
	}
	return rows
}
