package postgres

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dialecttest"
)

func TestCheckoutsBeginAtTheFront(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		dialecttest.BeginsAtTheFront(t, func(t *testing.T) *dialect.Session { return migrated(t, dsn) }, func(s *dialect.Session) string {
			return "UPDATE " + s.Names.Table("task") + " SET updated = 1, lease_until = 2 WHERE kind = 'long'"
		})
	})
}
