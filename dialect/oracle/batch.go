package oracle

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit/batch"
)

// NeedsTx always returns true: a statement that changes rows does not return them, so a second one reads them.
func (Dialect) NeedsTx(*dialect.Session, dialect.Op, dialect.Args, int) bool { return true }

// RunBatch changes rows, and determines which ones by a query before or after the change.
func (Dialect) RunBatch(
	ctx context.Context, s *dialect.Session, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	b, own := s.Statements.Batch(op), s.Private
	switch op {
	case dialect.Insert:
		return insert(ctx, s, c, args, n)
	case dialect.Extend:
		return batch.Then(ctx, s, c, b, own("extended"), args, n)
	}
	locked, err := batch.Locked(ctx, s, c, own("lock"), b, args, n)
	if err != nil || op != dialect.Settle || len(locked.Rows) == 0 {
		return locked, err
	}
	settled, err := s.QueryBatch(ctx, c, own("settled"), args, n)
	return dialect.Changed{Rows: batch.Among(settled, locked.Rows)}, err
}

// insert adds rows in blocks of few sizes, and reads which rows were added. A row whose id the caller gave may be one
// that another transaction has added meanwhile, so if there is one, insert adds one row at a time.
func insert(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, n int,
) (out dialect.Changed, err error) {
	if batch.Given(args) {
		return batch.OneByOne(args, n, func(row dialect.Args) (dialect.Changed, error) {
			added, err := batch.One(ctx, s, c, s.Private("insert one"), row)
			if err != nil && (Dialect{}).Classify(err) == dialect.Duplicate {
				err = nil
			}
			return added, err
		})
	}
	for from := 0; from < n; {
		rows := block(args["payload"].(dialect.Col[[]byte]), from)
		part := batch.Pick(args, rows)
		added, err := batch.Then(ctx, s, c, s.Statements.Insert, s.Private("inserted"), part, len(rows))
		if err != nil {
			return out, err
		}
		out.Rows = append(out.Rows, added.Rows...)
		from += len(rows)
	}
	return out, nil
}

// blockSizes are the possible numbers of rows in a block. There are few, because each text and each list of bound types
// has its own cursor in the shared pool. SQL Tuning Guide, "Cursor Sharing": bind variables of different types or
// maximum lengths prevent sharing.
var blockSizes = []int{maxTasks, 50, 20, 10, 5, 2, 1}

// block returns the indexes of the rows of the block that begins with row from. A block has either payloads bound as
// RAW or payloads bound as BLOB, so that a text has two lists of types, not one for each order of the two.
func block(payloads [][]byte, from int) (rows []int) {
	long := func(i int) bool { return len(payloads[i]) > inlineBytes }
	to := from + 1
	for to < len(payloads) && to-from < maxTasks && long(to) == long(from) {
		to++
	}
	for _, size := range blockSizes {
		if size <= to-from {
			to = from + size
			break
		}
	}
	for i := from; i < to; i++ {
		rows = append(rows, i)
	}
	return rows
}
