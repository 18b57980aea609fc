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

// Inliner is implemented by a dialect that writes some values into the texts of statements by itself, since its servers read them faster
// than what the driver makes of them. Inline appends v to text as a literal without a question mark, or says that it is to be bound.
type Inliner interface {
	Inline(text []byte, v any) ([]byte, bool)
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
	style  PlaceholderStyle
	value  func(any) any
	inline func([]byte, any) ([]byte, bool)
	cache  sync.Map // text -> compiled
}

type compiled struct {
	text  string   // with ? for each of names
	parts []string // what stands around them
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
	if c.parts = strings.Split(c.text, "?"); err == nil && len(c.parts) != len(c.names)+1 {
		c.err = fmt.Errorf("dialect: statement has a question mark, which the driver would take for a value: %s", text)
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
	if b.inline == nil { // the text is there already
		values, err := b.appendValues(values, c.names, args, row)
		return sqlx.Rebind(int(b.style), c.text), values, err
	}
	written, values, err := b.appendText(nil, values, c, args, row)
	return sqlx.Rebind(int(b.style), string(written)), values, err
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
	text, values := []byte(nil), make([]any, 0, len(head.names)+(to-from)*len(row.names)+len(tail.names))
	text, values, err := b.appendText(text, values, head, args, -1)
	for i := from; i < to && err == nil; i++ {
		if i > from {
			text = append(text, batch.Sep...)
		}
		text, values, err = b.appendText(text, values, row, args, i)
	}
	if err == nil {
		text, values, err = b.appendText(text, values, tail, args, -1)
	}
	return sqlx.Rebind(int(b.style), string(text)), values, err
}

// appendText appends the text of c with the values that the dialect writes into it, and the others to values.
func (b *binder) appendText(text []byte, values []any, c compiled, args Args, row int) ([]byte, []any, error) {
	if b.inline == nil {
		values, err := b.appendValues(values, c.names, args, row)
		return append(text, c.text...), values, err
	}
	for i, name := range c.names {
		v, err := arg(name, args, row)
		if err != nil {
			return text, values, err
		}
		text = append(text, c.parts[i]...)
		var written bool
		if text, written = b.inline(text, v); !written {
			text, values = append(text, '?'), append(values, b.bound(v))
		}
	}
	return append(text, c.parts[len(c.names)]...), values, nil
}

// appendValues appends what is bound to names.
func (b *binder) appendValues(values []any, names []string, args Args, row int) ([]any, error) {
	for _, name := range names {
		v, err := arg(name, args, row)
		if err != nil {
			return nil, err
		}
		values = append(values, b.bound(v))
	}
	return values, nil
}

// bound is what the driver gets for a value.
func (b *binder) bound(v any) any {
	if b.value == nil {
		return v
	}
	return b.value(v)
}

// arg looks up a name; row picks the value of a column, -1 takes values as they are.
func arg(name string, args Args, row int) (any, error) {
	v, ok := args[name]
	if !ok {
		return nil, fmt.Errorf("dialect: statement wants :%s, which this call does not have", name)
	}
	col, isColumn := v.(Column)
	switch {
	case isColumn && row >= 0:
		return col.At(row), nil
	case isColumn:
		return nil, fmt.Errorf("dialect: statement wants :%s once, but it is a column", name)
	}
	return v, nil
}
