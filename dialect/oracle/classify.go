package oracle

import (
	"errors"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/sijms/go-ora/v2/network"
)

// lockTimeout is the error that dbq's own blocks raise after a lock wait timeout.
const lockTimeout = 20001

// notCompiled is the error of a block that does not compile. Its text has the reason.
const notCompiled = 6550

// classes maps the server's error numbers to classes. Database Error Messages,
// https://docs.oracle.com/en/error-help/db/
var classes = map[dialect.Class][]int{
	dialect.Duplicate: {1},
	dialect.Conflict: {
		60, 54, 30006, 8177, 1555, // deadlock, busy, WAIT is over, serialization, old snapshot
		4020, 4021, 4061, 4065, 4068, // changed code
		2049, 8103, 8176, 1410, // a lock of a distributed transaction, a table or a row's place that is not what it was
		63300, 63302, // rolled back for a transaction of higher priority (23ai)
		lockTimeout,
	},
	dialect.Unavailable: {
		18, 20, 28, 1012, 1033, 1034, 1035, 1041, 1089, 1090, 1109, // full, killed, starting, stopping
		2391, 2396, 2399, 3114, // limits of a session
		16000, 16456, // read-only
		257, 1000, // out of archive, cursors
		1650, 1651, 1652, 1653, 1654, 1655, 1656, 1658, 1659, 1688, 1691, 30036, // out of space or undo
		4031, 4036, // out of memory
		// of the listener, or of the network
		12154, 12170, 12500, 12502, 12504, 12505, 12506, 12511, 12513, 12514, 12515, 12516, 12517, 12518, 12519, 12520,
		12521, 12523, 12524, 12525, 12526, 12527, 12528, 12529, 12540, 12541, 12542, 12543, 12545, 12546, 12549, 12560,
		12564,
	},
	dialect.Ambiguous: {
		603, 1013, 1092, 3113, 3120, 3135, 3137, 3146, // ended, cancelled or lost on the way, or misunderstood
		12537, 12547, 12570, 12571, 12592, 12606, 12608, 12609,
		25401, 25402, 25403, 25405, 25408, 25409,
	},
	dialect.Missing: {942, 904},
	dialect.Denied: {
		1005, 1017, 1031, 1045, 1950, 28000, 28001, 41900,
		28040, // the server refuses the driver's way to log on
	},
	dialect.Invalid: {12899, 1400, 1438, 1426, 1461, 1465, 1722, 2290, 932, 6502, 22835, 24816},
}

// Classify returns the class of an error by the server's error number.
func (Dialect) Classify(err error) dialect.Class {
	var e *network.OracleError
	if !errors.As(err, &e) {
		return kit.ClassifyConn(err)
	}
	if e.ErrCode == notCompiled {
		return whyNotCompiled(e.Error())
	}
	for class, codes := range classes {
		if slices.Contains(codes, e.ErrCode) {
			return class
		}
	}
	return dialect.Unknown
}

// whyNotCompiled returns the class of the reason for which a block does not compile.
func whyNotCompiled(text string) dialect.Class {
	says := func(why string) bool { return strings.Contains(text, why) }
	switch {
	case says("DBMS_LOCK"), says("ORA-01031"), says("ORA-41900"):
		return dialect.Denied
	case says("ORA-00942"), says("ORA-00904"), says("PLS-00201"):
		return dialect.Missing
	}
	return dialect.Unknown
}
