package mysql

import (
	"errors"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	driver "github.com/go-sql-driver/mysql"
)

// Classify returns the class of an error by the server's error number.
func (Dialect) Classify(err error) dialect.Class {
	if errors.Is(err, dialect.ErrNoDatabase) { // the DSN's database; a schema that does not exist is Missing
		return dialect.Unavailable
	}
	var e *driver.MySQLError
	if !errors.As(err, &e) {
		switch {
		case errors.Is(err, driver.ErrInvalidConn):
			return dialect.Ambiguous // the driver's ErrBadConn is for what was not sent
		case errors.Is(err, driver.ErrPktTooLarge):
			return dialect.Invalid
		}
		return kit.ClassifyConn(err)
	}
	switch e.Number {
	case 1062, 1586:
		return dialect.Duplicate
	case 1213, 1205, 1020, 3572, // deadlock, lock timeout, changed row, NOWAIT
		3101, 1180, 3058, // rollback by Group Replication, failed commit, deadlock of GET_LOCK
		1242,             // a statement of dbq did not get its lock in time
		1317, 3024, 1969, // killed query, statement timeouts
		8002, 8022, 8028, 9007: // TiDB's
		return dialect.Conflict
	case 1040, 1053, 1203, 1226, // full, shutting down
		1290, 1792, 1836, 1927, 4031, 1047, // read-only, killed, idle, not ready
		9001, 9002, 9003, 9004, 9005, // TiDB's stores
		3, 5, 20, 1021, 1026, 1030, 1037, 1038, // out of disk or memory; errors of the system
		1041, 1114, 1135, 1206, 1637, // out of memory, table space, threads, locks, undo
		3100, 3796, 3797, 3798, 3799: // a group's member that cannot commit, or begin
		return dialect.Unavailable
	case 1158, 1159, 1160, 1161:
		return dialect.Ambiguous
	case 1146, 1054, 1049: // 1049: the schema does not exist
		return dialect.Missing
	case 1044, 1045, 1142, 1143, 1227, 1370, 1698:
		return dialect.Denied
	case 1406, 1264, 1366, 1048, 1364, 3819, 4025, 1153, 1390, 1265, 3140:
		return dialect.Invalid
	}
	return dialect.Unknown
}
