package dialect

import (
	"fmt"
	"strings"
	"sync"

	"github.com/jmoiron/sqlx"
)

// Args are the values of a statement by the names it uses.
type Args map[string]any

// A Column is an argument of a batch: one value for each of its rows. Col implements it.
type Column interface {
	Len() int
	At(i int) any
	Slice() any
}

// Col is a column of values of one type.
type Col[T any] []T

// Len is the number of rows.
func (c Col[T]) Len() int { return len(c) }

// At is the value of row i.
func (c Col[T]) At(i int) any { return c[i] }

// Slice is the plain slice, for an engine that takes arrays.
func (c Col[T]) Slice() any { return []T(c) }

// ValueBinder is implemented by a dialect whose driver wants other values than those the core passes (uuid.UUID, string,
// *string, int64, *int64, int, []byte, and, where a Batch takes arrays, slices of these). Without it, values go to the
// driver as they are.
type ValueBinder interface {
	BindValue(v any) any
}

// PlaceholderStyle says how a driver wants its placeholders.
type PlaceholderStyle int

// The styles that drivers use.
const (
	Question PlaceholderStyle = sqlx.QUESTION // ?
	Dollar   PlaceholderStyle = sqlx.DOLLAR   // $1
	Colon    PlaceholderStyle = sqlx.NAMED    // :arg1
)

// binder turns texts with :names into a driver's placeholders. Texts are compiled once.
type binder struct {
	style PlaceholderStyle
	value func(any) any
	cache sync.Map // text -> compiled
}

type compiled struct {
	text  string // with ? for each of names
	names []string
	err   error
}

// compile replaces each :name by ?. sqlx does the parsing; giving it each name as its own value brings the names back in
// their order.
func (b *binder) compile(text string) compiled {
	if c, ok := b.cache.Load(text); ok {
		return c.(compiled)
	}
	var c compiled
	echo := map[string]any{}
	for _, name := range namesIn(text) {
		echo[name] = name
	}
	q, values, err := sqlx.Named(text, echo)
	if err != nil {
		c.err = fmt.Errorf("dialect: statement cannot be compiled: %w: %s", err, text)
	}
	c.text = q
	for _, v := range values {
		c.names = append(c.names, v.(string))
	}
	b.cache.Store(text, c)
	return c
}

// namesIn finds the :names of a text.
func namesIn(text string) []string {
	var out []string
	for i := 0; i < len(text); i++ {
		if text[i] != ':' {
			continue
		}
		j := i + 1
		for j < len(text) && (text[j] == '_' || 'a' <= text[j] && text[j] <= 'z' || j > i+1 && '0' <= text[j] && text[j] <= '9') {
			j++
		}
		if j > i+1 {
			out = append(out, text[i+1:j])
		}
		i = j - 1
	}
	return out
}

// bind gives the driver's text and its arguments for a plain statement. A name without a value is an error: a dialect
// asked for something the core does not have.
func (b *binder) bind(text string, args Args) (string, []any, error) {
	return b.bindRow(text, args, -1)
}

// bindRow is bind for a plain statement whose columns have the values of one row.
func (b *binder) bindRow(text string, args Args, row int) (string, []any, error) {
	c := b.compile(text)
	if c.err != nil {
		return "", nil, c.err
	}
	values := make([]any, 0, len(c.names))
	values, err := b.appendValues(values, c.names, args, row)
	return sqlx.Rebind(int(b.style), c.text), values, err
}

// bindBatch gives the driver's text and its arguments for rows from to to of a batch.
func (b *binder) bindBatch(batch Batch, args Args, from, to int) (string, []any, error) {
	if batch.Row == "" {
		part := Args{}
		for name, v := range args {
			part[name] = v
			if col, ok := v.(Column); ok {
				part[name] = sliceOf(col, from, to)
			} else if batch.Repeat {
				part[name] = repeated(v, to-from)
			}
		}
		return b.bind(batch.SQL, part)
	}
	before, after, found := strings.Cut(batch.SQL, "{rows}")
	if !found {
		return "", nil, fmt.Errorf("dialect: batch has a row but no {rows}: %s", batch.SQL)
	}
	head, row, tail := b.compile(before), b.compile(batch.Row), b.compile(after)
	for _, c := range []compiled{head, row, tail} {
		if c.err != nil {
			return "", nil, c.err
		}
	}
	var text strings.Builder
	values := make([]any, 0, len(head.names)+(to-from)*len(row.names)+len(tail.names))
	text.WriteString(head.text)
	values, err := b.appendValues(values, head.names, args, -1)
	for i := from; i < to && err == nil; i++ {
		if i > from {
			text.WriteString(batch.Sep)
		}
		text.WriteString(row.text)
		values, err = b.appendValues(values, row.names, args, i)
	}
	text.WriteString(tail.text)
	if err == nil {
		values, err = b.appendValues(values, tail.names, args, -1)
	}
	return sqlx.Rebind(int(b.style), text.String()), values, err
}

// appendValues looks up names; row picks the value of a column, -1 takes values as they are.
func (b *binder) appendValues(values []any, names []string, args Args, row int) ([]any, error) {
	for _, name := range names {
		v, ok := args[name]
		if !ok {
			return nil, fmt.Errorf("dialect: statement wants :%s, which this call does not have", name)
		}
		if col, isColumn := v.(Column); isColumn && row >= 0 {
			v = col.At(row)
		} else if isColumn {
			return nil, fmt.Errorf("dialect: statement wants :%s once, but it is a column", name)
		}
		if b.value != nil {
			v = b.value(v)
		}
		values = append(values, v)
	}
	return values, nil
}
