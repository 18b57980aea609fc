package dialect

import (
	"context"
	"fmt"
)

// A Batch is a statement for many rows at once: some of its values are columns (Column), with one value for each row.
// The core splits the rows into parts of at most Max and runs the statement for each part.
//
// The rows are inserted into a text in one of three ways:
//
//   - as a list, with Row: {rows} is replaced by Row, once for each row;
//   - as arrays, without Row: a column is bound as a slice, every other value as it is;
//   - one at a time, without Row and where Max is 1: a column is bound as the row's value.
//
// For two rows, with :id as their column, these
//
//	Batch{SQL: "DELETE FROM t WHERE id = ANY (:id) AND queue = :queue", Max: 5000}
//	Batch{SQL: "DELETE FROM t WHERE id IN ({rows}) AND queue = :queue", Row: ":id", Max: 500}
//
// are sent as
//
//	DELETE FROM t WHERE id = ANY ($1) AND queue = $2    -- $1 is a slice of two
//	DELETE FROM t WHERE id IN (?, ?) AND queue = ?
//
// The rows of a list are separated by commas. Those that begin with SELECT are joined by UNION ALL instead, and each of
// those that begin with OR or BEGIN stands on lines of its own.
type Batch struct {
	SQL string
	Row string // the text of one row of the list
	Max int    // maximum rows in one statement
}

// An Op is a change of many rows that a BatchRunner can run in its own way. Its batch in Statements has the same
// name.
type Op string

// The operations.
const (
	Insert Op = "insert"
	Settle Op = "settle"
	Remove Op = "remove"
	Extend Op = "extend"
	Start  Op = "start"
)

// Batch returns the batch of an operation. It panics for an unknown Op.
func (st *Statements) Batch(op Op) Batch {
	switch op {
	case Insert:
		return st.Insert
	case Settle:
		return st.Settle
	case Remove:
		return st.Remove
	case Extend:
		return st.Extend
	case Start:
		return st.Start
	}
	panic(fmt.Sprintf("dialect: there is no operation %q", op))
}

// Changed is the result of an operation on rows.
type Changed struct {
	// All is set if every row was changed to its values. Rows may then be nil.
	All bool
	// Rows are the changed rows, with the columns that the batch of the operation returns.
	Rows []Row
}

// A BatchRunner is a dialect for which one statement is not enough, or not the fastest: one whose engine cannot return
// the rows that a statement changed, or has a quicker statement for a single row or for rows that share most values.
// Without it, the core runs the operation's batch, which must return the rows that it changed.
type BatchRunner interface {
	// RunBatch does op to n rows, in as many statements as it takes. Some of args are columns. What the batch of op
	// returns according to Statements is in the result. The batches that it runs besides are in Statements.Private. See
	// kit/batch.
	RunBatch(ctx context.Context, s *Session, c Conn, op Op, args Args, n int) (Changed, error)
	// NeedsTx reports whether RunBatch must be in a transaction for these rows, as when it changes them by more than
	// one statement, or when Server.ExplicitTx is set. Otherwise the statement may commit by itself.
	NeedsTx(s *Session, op Op, args Args, n int) bool
}
