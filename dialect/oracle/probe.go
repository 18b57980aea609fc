package oracle

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// probe reads only views that every user may read.
const probe = `SELECT
  (SELECT MAX(version_full) FROM product_component_version WHERE product LIKE 'Oracle%'),
  (SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET'),
  (SELECT value FROM nls_session_parameters WHERE parameter = 'NLS_COMP'),
  SYS_CONTEXT('USERENV', 'DATABASE_ROLE'),
  (SELECT default_collation FROM all_users WHERE username = SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')),
  (SELECT COUNT(*) FROM all_objects WHERE owner = 'SYS' AND object_name = 'DBMS_LOCK' AND object_type = 'PACKAGE')
  FROM dual`

// found is the row that probe returns.
type found struct {
	version, charset, comparison, role string
	collation                          string // of the session's schema, which its new tables inherit
	locks                              bool   // DBMS_LOCK may be used
}

// Probe determines the server's version and features. It refuses a server that is too old, a standby, and one that
// would change texts or would not compare them byte by byte.
func (Dialect) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	var version, charset, comparison, role, collation sql.NullString
	var locks int
	err := db.QueryRowContext(ctx, probe).Scan(&version, &charset, &comparison, &role, &collation, &locks)
	if err != nil {
		return dialect.Server{}, err
	}
	return inspect(found{
		version.String, charset.String, comparison.String, role.String, collation.String, locks > 0,
	})
}

// binary are the default collations that compare texts byte by byte, given that NLS_COMP is BINARY, which Probe
// checks. A server with a compatibility below 12.2 has none. Globalization Support Guide, "Data-Bound Collation".
var binary = []string{"", "USING_NLS_COMP", "BINARY"}

// inspect returns the Server that the found values describe.
func inspect(f found) (dialect.Server, error) {
	refuse := func(format, value string) (dialect.Server, error) {
		return dialect.Server{}, fmt.Errorf("%w: "+format, dialect.ErrServer, value)
	}
	major, _, _ := strings.Cut(f.version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil || n < 19:
		return refuse("the server is too old (%q), dbq needs Oracle 19c", f.version)
	case f.charset != "AL32UTF8":
		return refuse("the database's character set is %q, which cannot hold every text: dbq needs AL32UTF8", f.charset)
	case f.comparison != "BINARY":
		return refuse("NLS_COMP is %q, which makes different references equal: set it to BINARY", f.comparison)
	case !slices.Contains(binary, f.collation):
		return refuse("the schema's default collation is %q, which makes different references equal: use a schema whose "+
			"DEFAULT COLLATION is USING_NLS_COMP or BINARY", f.collation)
	case f.role != "PRIMARY":
		return refuse("the database's role is %q: use the primary", f.role)
	}
	s := dialect.Server{
		LongLockWaits: true, // an UPDATE waits for as long as the lock lasts: there is no setting that bounds it
		Product:       "Oracle", Version: f.version, MaxPayload: 100 << 20, ExplicitTx: true,
		Untested:   true,
		Precision:  time.Millisecond, // a server on Windows has no better clock
		Strategies: []dialect.Strategy{dialect.SkipLocked, dialect.CAS, Update},
	}
	if f.locks {
		s.Strategies = slices.Insert(s.Strategies, 1, dialect.Advisory)
	}
	return s, nil
}
