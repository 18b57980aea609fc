// Package oracle is dbq's dialect for Oracle Database 19c to 23ai, through sijms/go-ora. Import it for its side effect:
//
//	import _ "github.com/dbq-go/dbq/dialect/oracle"
//
// It has not yet been run against a server. Its statements are read by a checker, and its use of the driver follows the driver's source;
// neither is a proof. See docs/oracle.md.
//
// On Oracle the empty text is null. What may be empty and must not be lost stands beside its size: payload and payload_size, result and result_size. An
// empty kind is null in the table, and reads as the empty text; no other text may be empty.
package oracle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
	driver "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/network"
)

// note is for who opens a database, until a report of a real run says otherwise.
const note = "the Oracle dialect has not yet been run against a server"

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"oracle"}, Dialect: Dialect{}, Open: Open, Note: note})
}

// Dialect speaks to Oracle Database.
type Dialect struct{}

// Name is "oracle".
func (Dialect) Name() string { return "oracle" }

// Update checks out by one UPDATE whose WHERE chooses the rows in a sub-select, and a SELECT of what it marked. Workers wait for each other's rows, so it is the slowest; it needs neither PL/SQL nor a right.
const Update dialect.Strategy = "update"

// inlineBytes of a payload are bound as RAW, which each Oracle takes in SQL; a longer one goes as a temporary LOB, of any size.
const inlineBytes = 2000

// BindValue gives the driver what it binds as the column's type, also when it is null: ids as RAW(16), long payloads as BLOB. Columns become
// batches, for which the driver runs a statement once for each row. No time is ever bound.
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

// probe asks only what every user may read.
const probe = `SELECT (SELECT MAX(version_full) FROM product_component_version WHERE product LIKE 'Oracle%'),
  (SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET'),
  (SELECT value FROM nls_session_parameters WHERE parameter = 'NLS_COMP'),
  SYS_CONTEXT('USERENV', 'DATABASE_ROLE'),
  (SELECT default_collation FROM all_users WHERE username = SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')),
  (SELECT COUNT(*) FROM all_objects WHERE owner = 'SYS' AND object_name = 'DBMS_LOCK' AND object_type = 'PACKAGE')
  FROM dual`

// found is what probe answers.
type found struct {
	version, charset, comparison, role string
	collation                          string // of the session's schema, which its new tables inherit
	locks                              bool   // DBMS_LOCK may be used
}

// Probe asks the server what it is. A server that is too old, a standby, or one whose texts would be changed or compared other than byte by byte is
// refused.
func (Dialect) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	var version, charset, comparison, role, collation sql.NullString
	var locks int
	if err := db.QueryRowContext(ctx, probe).Scan(&version, &charset, &comparison, &role, &collation, &locks); err != nil {
		return dialect.Server{}, err
	}
	return inspect(found{version.String, charset.String, comparison.String, role.String, collation.String, locks > 0})
}

// binary are default collations by which texts are compared byte by byte, as NLS_COMP is checked to be BINARY. A server that is not compatible with 12.2
// has none. Globalization Support Guide, "Data-Bound Collation".
var binary = []string{"", "USING_NLS_COMP", "BINARY"}

// inspect makes a Server of what was found.
func inspect(f found) (dialect.Server, error) {
	major, _, _ := strings.Cut(f.version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil || n < 19:
		return dialect.Server{}, fmt.Errorf("%w: the server is too old (%q), dbq needs Oracle 19c", dialect.ErrServer, f.version)
	case f.charset != "AL32UTF8":
		return dialect.Server{}, fmt.Errorf("%w: the database's character set is %q, which cannot hold every text: dbq needs AL32UTF8", dialect.ErrServer, f.charset)
	case f.comparison != "BINARY":
		return dialect.Server{}, fmt.Errorf("%w: NLS_COMP is %q, which makes different references equal: set it to BINARY", dialect.ErrServer, f.comparison)
	case !slices.Contains(binary, f.collation):
		return dialect.Server{}, fmt.Errorf("%w: the schema's default collation is %q, which makes different references equal: use a schema whose "+
			"DEFAULT COLLATION is USING_NLS_COMP or BINARY", dialect.ErrServer, f.collation)
	case f.role != "PRIMARY":
		return dialect.Server{}, fmt.Errorf("%w: the database's role is %q: use the primary", dialect.ErrServer, f.role)
	}
	s := dialect.Server{
		LongLockWaits: true, // an UPDATE waits for as long as the lock lasts: there is no setting that bounds it
		Product:       "Oracle", Version: f.version, MaxPayload: 100 << 20, ExplicitTx: true,
		Precision:  time.Millisecond, // a server on Windows has no better clock
		Strategies: []dialect.Strategy{dialect.SkipLocked, dialect.CAS, Update},
	}
	if f.locks {
		s.Strategies = slices.Insert(s.Strategies, 1, dialect.Advisory)
	}
	return s, nil
}

// lockNotHad is the error that our own blocks raise when a lock was not had in time.
const lockNotHad = 20001

// Classify reads the server's error numbers. Database Error Messages, https://docs.oracle.com/en/error-help/db/
func (Dialect) Classify(err error) dialect.Class {
	var e *network.OracleError
	if !errors.As(err, &e) {
		return dialect.ClassifyConn(err)
	}
	switch e.ErrCode {
	case 1:
		return dialect.Duplicate
	case 60, 54, 30006, 8177, 1555, 4020, 4021, 4061, 4065, 4068, // deadlock, busy, WAIT is over, serialization, old snapshot, changed code
		2049, 8103, 8176, 1410, // a lock of a distributed transaction, a table or a row's place that is not what it was
		63300, 63302, // rolled back for a transaction of higher priority (23ai)
		lockNotHad:
		return dialect.Conflict
	case 18, 20, 28, 1012, 1033, 1034, 1035, 1041, 1089, 1090, 1109, 2391, 2396, 2399, 3114, 16000, 16456, // full, killed, starting, stopping, read-only
		257, 1000, 1650, 1651, 1652, 1653, 1654, 1655, 1656, 1658, 1659, 1688, 1691, 30036, 4031, 4036, // out of archive, cursors, space, undo or memory
		12154, 12170, 12500, 12502, 12504, 12505, 12506, 12511, 12513, 12514, 12515, 12516, 12517, 12518, 12519, 12520, 12521, 12523, 12524, 12525,
		12526, 12527, 12528, 12529, 12540, 12541, 12542, 12543, 12545, 12546, 12549, 12560, 12564: // the listener's, or the way to it
		return dialect.Unavailable
	case 603, 1013, 1092, 3113, 3120, 3135, 3137, 3146, // ended, cancelled or lost on the way, or a message that was not understood
		12537, 12547, 12570, 12571, 12592, 12606, 12608, 12609, 25401, 25402, 25403, 25405, 25408, 25409:
		return dialect.Ambiguous
	case 942, 904:
		return dialect.Missing
	case 6550: // a block that does not compile says why in its text
		switch text := e.Error(); {
		case strings.Contains(text, "DBMS_LOCK"), strings.Contains(text, "ORA-01031"), strings.Contains(text, "ORA-41900"):
			return dialect.Denied
		case strings.Contains(text, "ORA-00942"), strings.Contains(text, "ORA-00904"), strings.Contains(text, "PLS-00201"):
			return dialect.Missing
		}
	case 1005, 1017, 1031, 1045, 1950, 28000, 28001, 28040, 41900: // 28040: the server refuses the driver's way to log on
		return dialect.Denied
	case 12899, 1400, 1438, 1426, 1461, 1465, 1722, 2290, 932, 6502, 22835, 24816:
		return dialect.Invalid
	}
	return dialect.Unknown
}
