package dialecttest

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// TestExpireLeasesSkipsLockedRows checks that ExpireLeases removes renewals that ended long ago, without waiting for
// rows that a heartbeat or a takeover has locked, whether or not these have ended.
func TestExpireLeasesSkipsLockedRows(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		if e.servers == nil {
			t.Skip("no server, or one transaction writes at a time")
		}
		OnEachServer(t, e.dialect.Name(), e.servers, func(t *testing.T, dsn string) {
			s := e.migrated(t, dsn, "")
			lease := s.Names.Table("lease")
			const long = int64(4e15) // a time that has not come
			lasts := uuid.UUID{3}
			write := func(ctx context.Context, c dialect.Conn, text string, args dialect.Args) {
				t.Helper()
				if _, err := s.Exec(ctx, c, text, args); err != nil {
					t.Fatal(err)
				}
			}
			run := func(f func(ctx context.Context, c dialect.Conn)) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := s.Tx(ctx, func(ctx context.Context, c dialect.Conn) error { f(ctx, c); return nil })
				check.OK(t, err)
			}
			expire := func(want int) {
				t.Helper()
				run(func(ctx context.Context, c dialect.Conn) {
					write(ctx, c, s.Statements.ExpireLeases, dialect.Args{"age": int64(1), "limit": 10})
				})
				left, err := s.Read(t.Context(), "SELECT id FROM "+lease, nil)
				if err != nil || len(left) != want {
					t.Errorf("%d renewals are left (error %v), want %d", len(left), err, want)
				}
			}
			run(func(ctx context.Context, c dialect.Conn) {
				for id, until := range map[uuid.UUID]int64{{1}: 1, {2}: 1, lasts: long, {4}: 1} {
					write(ctx, c, "INSERT INTO "+lease+" (id, fence, lease_until, keep_until) VALUES (:id, 1, :until, :until)",
						dialect.Args{"id": id, "until": until})
				}
			})
			run(func(ctx context.Context, c dialect.Conn) {
				for _, id := range []uuid.UUID{{1}, lasts} {
					write(ctx, c, "UPDATE "+lease+" SET fence = fence + 1 WHERE id = :id", dialect.Args{"id": id})
				}
				expire(2)
			})
			expire(1)
		})
	})
}
