package sqlrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/jmoiron/sqlx"
)

// bindTypes has sqlx's name of each style of placeholders.
var bindTypes = [...]int{
	dialect.Question: sqlx.QUESTION, dialect.Dollar: sqlx.DOLLAR, dialect.Colon: sqlx.NAMED,
}

// binder turns texts with :names into a driver's placeholders. Texts are compiled once.
type binder struct {
	style  dialect.PlaceholderStyle
	value  func(any) any
	inline func([]byte, any) ([]byte, bool)
	cache  sync.Map // text -> compiled
	lists  sync.Map // dialect.Batch -> list
}

type compiled struct {
	text  string   // with ? for each of names
	sent  string   // text with the driver's placeholders
	parts []string // the text around them
	names []string
	err   error
}

// errNoText is returned if a dialect runs a statement that Statements.Private does not have.
var errNoText = errors.New("dialect: a statement without a text is run: is its name in Statements.Private misspelled?")

// token matches the parts of a text that can have a colon: names, and quoted text, comments and casts, which do not
// change.
var token = regexp.MustCompile(`(?s)'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|::|:[A-Za-z_][A-Za-z0-9_]*`)

// compile finds the names in a text, and replaces each by ?.
func (b *binder) compile(text string) compiled {
	if c, ok := b.cache.Load(text); ok {
		return c.(compiled)
	}
	var c compiled
	plain, from := withoutComment(text), 0
	for _, at := range token.FindAllStringIndex(plain, -1) {
		if name, ok := strings.CutPrefix(plain[at[0]:at[1]], ":"); ok && name != ":" {
			c.parts, c.names, from = append(c.parts, plain[from:at[0]]), append(c.names, name), at[1]
		}
	}
	c.parts = append(c.parts, plain[from:])
	if strings.Contains(plain, "?") {
		c.err = fmt.Errorf("dialect: statement has a question mark, which the driver would take for a value: %s", text)
	}
	c.text = strings.Join(c.parts, "?")
	c.sent = sqlx.Rebind(bindTypes[b.style], c.text)
	b.cache.Store(text, c)
	return c
}

// withoutComment removes the comment lines at the beginning of a text; see kit.ReadStatements.
func withoutComment(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// bind returns the driver's text and arguments of a plain statement. A name without a value is an error.
func (b *binder) bind(text string, args dialect.Args) (string, []any, error) {
	return b.bindRow(text, args, -1)
}

// bindRow is bind for a plain statement whose columns have the values of one row.
func (b *binder) bindRow(text string, args dialect.Args, row int) (string, []any, error) {
	if text == "" {
		return "", nil, errNoText
	}
	c := b.compile(text)
	if c.err != nil {
		return "", nil, c.err
	}
	values := make([]any, 0, len(c.names))
	if b.inline == nil { // the text is there already
		values, err := b.appendValues(values, c.names, args, row)
		return c.sent, values, err
	}
	written, values, err := b.appendText(nil, values, c, args, row)
	return sqlx.Rebind(bindTypes[b.style], string(written)), values, err
}

// bindBatch returns the driver's text and arguments for the rows [from, to) of a batch.
func (b *binder) bindBatch(batch dialect.Batch, args dialect.Args, from, to int) (string, []any, error) {
	if batch.SQL == "" {
		return "", nil, errNoText
	}
	if batch.Row == "" && batch.Max == 1 {
		return b.bindRow(batch.SQL, args, from)
	}
	if batch.Row == "" {
		part := dialect.Args{}
		for name, v := range args {
			part[name] = v
			if col, ok := v.(dialect.Column); ok {
				part[name] = sliceOf(col, from, to)
			}
		}
		return b.bind(batch.SQL, part)
	}
	l := b.compileList(batch)
	if l.err != nil {
		return "", nil, l.err
	}
	text, values := []byte(nil), make([]any, 0, len(l.head.names)+(to-from)*len(l.row.names)+len(l.tail.names))
	text, values, err := b.appendText(text, values, l.head, args, -1)
	for i := from; i < to && err == nil; i++ {
		if i > from {
			text = append(text, l.separator...)
		}
		text, values, err = b.appendText(text, values, l.row, args, i)
	}
	if err == nil {
		text, values, err = b.appendText(text, values, l.tail, args, -1)
	}
	return sqlx.Rebind(bindTypes[b.style], string(text)), values, err
}

// list is a batch whose rows are a list.
type list struct {
	head, row, tail compiled
	separator       string
	err             error
}

// Separator returns the text between the rows of a batch; see dialect.Batch. Rows with lines of their own begin in the
// column of {rows}.
func Separator(b dialect.Batch) string {
	switch {
	case strings.HasPrefix(b.Row, "SELECT"):
		return " UNION ALL "
	case kit.OnLines(b.Row):
		before, _, _ := strings.Cut(b.SQL, "{rows}")
		return "\n" + strings.Repeat(" ", len(before)-1-strings.LastIndex(before, "\n"))
	}
	return ", "
}

// compileList compiles a batch with a Row.
func (b *binder) compileList(batch dialect.Batch) *list {
	if l, ok := b.lists.Load(batch); ok {
		return l.(*list)
	}
	before, after, found := strings.Cut(batch.SQL, "{rows}")
	l := &list{head: b.compile(before), row: b.compile(batch.Row), tail: b.compile(after), separator: Separator(batch)}
	if l.err = cmp.Or(l.head.err, l.row.err, l.tail.err); !found {
		l.err = fmt.Errorf("dialect: batch has a row but no {rows}: %s", batch.SQL)
	}
	b.lists.Store(batch, l)
	return l
}

// appendText appends the text of c, with the inlined values in it, to text, and the other values to values.
func (b *binder) appendText(text []byte, values []any, c compiled, args dialect.Args, row int) ([]byte, []any, error) {
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

// appendValues appends the bound values of names.
func (b *binder) appendValues(values []any, names []string, args dialect.Args, row int) ([]any, error) {
	for _, name := range names {
		v, err := arg(name, args, row)
		if err != nil {
			return nil, err
		}
		values = append(values, b.bound(v))
	}
	return values, nil
}

// bound returns the driver's form of a value.
func (b *binder) bound(v any) any {
	if b.value == nil {
		return v
	}
	return b.value(v)
}

// arg returns the value of a name. row selects the value of a column; with -1, a column is returned as it is.
func arg(name string, args dialect.Args, row int) (any, error) {
	v, ok := args[name]
	if !ok {
		return nil, fmt.Errorf("dialect: statement wants :%s, which this call does not have", name)
	}
	col, isColumn := v.(dialect.Column)
	switch {
	case isColumn && row >= 0:
		return col.At(row), nil
	case isColumn:
		return nil, fmt.Errorf("dialect: statement wants :%s once, but it is a column", name)
	}
	return v, nil
}

// sliceOf returns the rows [from, to) of a column as a plain slice.
func sliceOf(col dialect.Column, from, to int) any {
	return reflect.ValueOf(col.Slice()).Slice(from, to).Interface()
}

// RunBatch applies an operation to n rows: by the dialect's BatchRunner or, without one, by the operation's batch.
func (s *Session) RunBatch(
	ctx context.Context, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	if payloads, ok := args["payload"].(dialect.Col[[]byte]); ok {
		bytes := 0
		for _, p := range payloads {
			bytes += len(p)
		}
		tryOf(ctx).sends(bytes)
	}
	if s.batches != nil {
		return s.batches.RunBatch(ctx, &s.Session, c, op, args, n)
	}
	rows, err := s.QueryBatch(ctx, c, s.Texts.Batch(op), args, n)
	return dialect.Changed{Rows: rows}, err
}

// NeedsTx reports whether RunBatch must be in a transaction for these rows.
func (s *Session) NeedsTx(op dialect.Op, args dialect.Args, n int) bool {
	if s.batches != nil {
		return s.batches.NeedsTx(&s.Session, op, args, n)
	}
	return s.Server.ExplicitTx || n > s.Texts.Batch(op).Max
}

// QueryBatch runs a batch of n rows on c, in statements of at most Max rows, and collects the results. Without rows, it
// runs nothing.
func (s *Session) QueryBatch(
	ctx context.Context, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) ([]dialect.Row, error) {
	return QueryBatchAs[dialect.Row](ctx, s, c, b, args, n)
}

// QueryBatchAs is QueryBatch for rows of another kind.
func QueryBatchAs[T any](
	ctx context.Context, s *Session, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) (out []T, err error) {
	for from, most := 0, max(b.Max, 1); from < n; from += most {
		to := min(from+most, n)
		q, values, err := s.binder.bindBatch(b, args, from, to)
		if err != nil {
			return nil, err
		}
		rows, err := readAs[T](ctx, c, q, values, to-from)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = rows
		} else {
			out = append(out, rows...)
		}
	}
	return out, nil
}

// ExecBatch is QueryBatch for a statement that returns nothing. It returns the number of affected rows.
func (s *Session) ExecBatch(
	ctx context.Context, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) (touched int64, err error) {
	for from, most := 0, max(b.Max, 1); from < n; from += most {
		q, values, err := s.binder.bindBatch(b, args, from, min(from+most, n))
		if err != nil {
			return touched, err
		}
		k, err := c.Exec(ctx, q, values...)
		touched += k
		if err != nil {
			return touched, err
		}
		tryOf(ctx).answered()
	}
	return touched, nil
}
