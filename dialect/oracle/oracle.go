// Package oracle is dbq's dialect for Oracle Database 19c to 23ai, through sijms/go-ora. Import it for its side effect:
//
//	import _ "github.com/dbq-go/dbq/dialect/oracle"
//
// It has not yet been run against a server. A checker reads its statements, and its use of the driver follows the
// driver's source; neither is a proof. See docs/oracle.md.
//
// On Oracle, empty text is null. A value that may be empty is stored with its size: payload with payload_size, result
// with result_size. An empty kind is null in the table and is read as empty text; no other text may be empty.
package oracle

import (
	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
	driver "github.com/sijms/go-ora/v2"
)

// note is logged when a client opens, until a report of a real run says otherwise.
const note = "the Oracle dialect has not yet been run against a server"

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"oracle"}, Dialect: Dialect{}, Open: Open,
		Note: note})
}

// Dialect speaks to Oracle Database.
type Dialect struct{}

// Name is "oracle".
func (Dialect) Name() string { return "oracle" }

// Update checks out by one UPDATE whose WHERE clause selects the rows in a subquery, and a SELECT of the marked rows.
// Workers wait for each other's rows, so it is the slowest strategy. It needs neither PL/SQL nor a grant.
const Update dialect.Strategy = "update"

// inlineBytes is the size up to which a payload is bound as RAW, which every version of Oracle accepts in SQL. A longer
// payload is sent as a temporary LOB.
const inlineBytes = 2000

// BindValue returns a value that the driver binds as the column's type, even if it is null: ids as RAW(16), long
// payloads as BLOB. Columns become batches, for which the driver runs a statement once for each row. Times are never
// bound.
func (Dialect) BindValue(v any) any {
	switch x := v.(type) {
	case uuid.UUID:
		return x[:]
	case []byte:
		if len(x) > inlineBytes {
			return driver.Blob{Data: x}
		}
	case []uuid.UUID:
		ids := make([][]byte, len(x))
		for i := range x {
			ids[i] = x[i][:]
		}
		return driver.NewBatch(ids)
	case [][]byte: // of one type, since a batch has one
		blobs := make([]driver.Blob, len(x))
		for i, b := range x {
			blobs[i].Data = b
		}
		return driver.NewBatch(blobs)
	case []int, []int64, []*int64, []string, []*string:
		return driver.NewBatch(x)
	}
	return v
}
