package oracle

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/sijms/go-ora/v2/network"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]dialect.Class{
		1: dialect.Duplicate, 60: dialect.Conflict, 54: dialect.Conflict, 8177: dialect.Conflict, lockNotHad: dialect.Conflict,
		12514: dialect.Unavailable, 1033: dialect.Unavailable, 16000: dialect.Unavailable, 28: dialect.Unavailable,
		3113: dialect.Ambiguous, 3135: dialect.Ambiguous, 1013: dialect.Ambiguous,
		942: dialect.Missing, 904: dialect.Missing, 1017: dialect.Denied, 1031: dialect.Denied,
		12899: dialect.Invalid, 1400: dialect.Invalid, 2290: dialect.Invalid, 1461: dialect.Invalid,
		900: dialect.Unknown, 600: dialect.Unknown, 6550: dialect.Unknown,
		2049: dialect.Conflict, 8176: dialect.Conflict, 8103: dialect.Conflict, 1410: dialect.Conflict, 63300: dialect.Conflict, 63302: dialect.Conflict,
		257: dialect.Unavailable, 1000: dialect.Unavailable, 1653: dialect.Unavailable, 1688: dialect.Unavailable, 1691: dialect.Unavailable,
		30036: dialect.Unavailable, 4031: dialect.Unavailable, 4036: dialect.Unavailable, 12521: dialect.Unavailable, 12560: dialect.Unavailable,
		603: dialect.Ambiguous, 12592: dialect.Ambiguous, 12606: dialect.Ambiguous, 3137: dialect.Ambiguous, 3146: dialect.Ambiguous,
		1005: dialect.Denied, 28040: dialect.Denied,
	} {
		err := fmt.Errorf("outer: %w", network.NewOracleError(code))
		if got := (Dialect{}).Classify(err); got != want {
			t.Errorf("ORA-%05d: got %v, want %v", code, got, want)
		}
	}
	for text, want := range map[string]dialect.Class{ // a block that did not compile
		"ORA-06550: line 4, column 17:\nPL/SQL: ORA-00942: table or view does not exist":                 dialect.Missing,
		"ORA-06550: line 2, column 8:\nPLS-00201: identifier 'DBQ_TASK.ID' must be declared":             dialect.Missing,
		"ORA-06550: line 5, column 6:\nPLS-00201: identifier 'DBMS_LOCK' must be declared":               dialect.Denied,
		"ORA-06550: line 4, column 17:\nPL/SQL: ORA-01031: insufficient privileges":                      dialect.Denied,
		"ORA-06550: line 1, column 7:\nPLS-00103: Encountered the symbol \"X\" when expecting something": dialect.Unknown,
	} {
		if got := (Dialect{}).Classify(&network.OracleError{ErrCode: 6550, ErrMsg: text}); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	dialecttest.ClassifiesWhatIsNotTheServers(t, Dialect{}, map[error]dialect.Class{errLost: dialect.Ambiguous})
}

func TestProbeRefusesAServerThatCannotKeepThePromises(t *testing.T) {
	t.Parallel()
	good := found{"19.22.0.0.0", "AL32UTF8", "BINARY", "PRIMARY", "USING_NLS_COMP", true}
	for _, f := range []found{
		{"18.3.0.0.0", "AL32UTF8", "BINARY", "PRIMARY", good.collation, true},
		{"", "AL32UTF8", "BINARY", "PRIMARY", good.collation, true},
		{good.version, "WE8ISO8859P1", "BINARY", "PRIMARY", good.collation, true},
		{good.version, "AL32UTF8", "LINGUISTIC", "PRIMARY", good.collation, true},
		{good.version, "AL32UTF8", "BINARY", "PHYSICAL STANDBY", good.collation, true},
		{good.version, "AL32UTF8", "BINARY", "PRIMARY", "BINARY_CI", true},
	} {
		if s, err := inspect(f); !errors.Is(err, dialect.ErrServer) {
			t.Errorf("%+v: got %+v, %v", f, s, err)
		}
	}
	for version, locks := range map[string]bool{good.version: true, "23.6.0.24.10": false, "21.3.0.0.0": true} {
		f := good
		f.version, f.locks = version, locks
		s, err := inspect(f)
		if err != nil || s.Strategies[0] != dialect.SkipLocked || !s.ExplicitTx || s.Version != version {
			t.Errorf("%+v: got %+v, %v", f, s, err)
		}
		if has := len(s.Strategies) == 4; has != locks {
			t.Errorf("%+v: DBMS_LOCK is granted: %v, the strategies are %v", f, locks, s.Strategies)
		}
	}
}
