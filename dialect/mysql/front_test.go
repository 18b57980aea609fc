package mysql

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dialecttest"
)

func TestCheckoutsBeginAtTheFront(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		dialecttest.BeginsAtTheFront(t, func(t *testing.T) *dialect.Session { return migrated(t, dsn) }, func(s *dialect.Session) string {
			return text(s.Names, "UPDATE {task} SET due_at = 1 - {ages}, updated = 1, lease_end = 2 WHERE kind = 'long'")
		})
	})
}
