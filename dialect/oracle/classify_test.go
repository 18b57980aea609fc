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
	for want, codes := range map[dialect.Class][]int{
		dialect.Duplicate: {1},
		dialect.Conflict:  {60, 54, 8177, lockTimeout, 2049, 8176, 8103, 1410, 63300, 63302},
		dialect.Unavailable: {
			12514, 1033, 16000, 28, 257, 1000, 1653, 1688, 1691, 30036, 4031, 4036, 12521, 12560,
		},
		dialect.Ambiguous: {3113, 3135, 1013, 603, 12592, 12606, 3137, 3146},
		dialect.Missing:   {942, 904},
		dialect.Denied:    {1017, 1031, 1005, 28040},
		dialect.Invalid:   {12899, 1400, 2290, 1461},
		dialect.Unknown:   {900, 600, 6550},
	} {
		for _, code := range codes {
			err := fmt.Errorf("outer: %w", network.NewOracleError(code))
			if got := (Dialect{}).Classify(err); got != want {
				t.Errorf("ORA-%05d: got %v, want %v", code, got, want)
			}
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
