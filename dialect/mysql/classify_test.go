package mysql

import (
	"fmt"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	mysqldriver "github.com/go-sql-driver/mysql"
)

func TestClassifyByNumber(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[dialect.Class][]uint16{
		dialect.Duplicate: {1062, 1586},
		dialect.Conflict:  {1213, 1205, 1020, 3572, 3101, 1180, 3058, 1242, 1317, 3024, 1969, 8002, 8022, 8028, 9007},
		dialect.Unavailable: {
			1040, 1053, 1203, 1226, 1290, 1792, 1836, 1927, 4031, 1047, 9001, 9005,
			3100, 3796, 3797, 3798, 3799,
			3, 5, 20, 1021, 1026, 1030, 1037, 1038, 1041, 1114, 1135, 1206, 1637,
		},
		dialect.Ambiguous: {1158, 1159, 1160, 1161},
		dialect.Missing:   {1146, 1054, 1049},
		dialect.Denied:    {1044, 1045, 1142, 1143, 1227, 1370, 1698},
		dialect.Invalid:   {1406, 1264, 1366, 1048, 1364, 3819, 4025, 1153, 1390, 1265, 3140},
		dialect.Unknown:   {1064, 1105, 1235, 1665, 0},
	} {
		for _, number := range numbers {
			err := fmt.Errorf("outer: %w", &mysqldriver.MySQLError{Number: number})
			if got := (Dialect{}).Classify(err); got != want {
				t.Errorf("%d: got %v, want %v", number, got, want)
			}
		}
	}
}

func TestClassifyForeignErrors(t *testing.T) {
	t.Parallel()
	dialecttest.ClassifiesWhatIsNotTheServers(t, Dialect{}, map[error]dialect.Class{
		mysqldriver.ErrInvalidConn: dialect.Ambiguous,
		mysqldriver.ErrPktTooLarge: dialect.Invalid,
	})
}
