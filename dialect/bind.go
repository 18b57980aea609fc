package dialect

// Args are the values of a statement by name.
type Args map[string]any

// A Column is an argument of a batch: one value for each of its rows. Col implements it.
type Column interface {
	Len() int
	At(i int) any
	Slice() any
	Pick(rows []int) Column
}

// Col is a column of values of one type.
type Col[T any] []T

// Len returns the number of rows.
func (c Col[T]) Len() int { return len(c) }

// At returns the value of row i.
func (c Col[T]) At(i int) any { return c[i] }

// Slice returns the plain slice, for an engine that accepts arrays.
func (c Col[T]) Slice() any { return []T(c) }

// Pick returns the column for some rows, by their indexes.
func (c Col[T]) Pick(rows []int) Column {
	out := make(Col[T], len(rows))
	for k, i := range rows {
		out[k] = c[i]
	}
	return out
}

// ValueBinder is implemented by a dialect whose driver needs other types than those that the core passes (uuid.UUID,
// string, *string, int64, *int64, int, []byte, and slices of these for a Batch with arrays). Without it, values are
// passed to the driver unchanged.
type ValueBinder interface {
	BindValue(v any) any
}

// Inliner is implemented by a dialect that writes some values into the texts of statements, because its servers parse
// literals faster than bound values. Inline appends v to text as a literal without a question mark, or returns false
// if v must be bound.
type Inliner interface {
	Inline(text []byte, v any) ([]byte, bool)
}

// PlaceholderStyle is the form of a driver's placeholders.
type PlaceholderStyle int

// The styles that drivers use.
const (
	Question PlaceholderStyle = iota // ?
	Dollar                           // $1
	Colon                            // :arg1
)
