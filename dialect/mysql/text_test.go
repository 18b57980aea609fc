package mysql

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

func TestIdsAreWrittenIntoTheText(t *testing.T) {
	t.Parallel()
	got, ok := Dialect{}.Inline([]byte("id = "), uuid.UUID{0: 0x27, 1: '\\', 15: 0xff})
	if want := "id = x'275c00000000000000000000000000ff'"; !ok || string(got) != want {
		t.Errorf("got %s %v, want %s", got, ok, want)
	}
	for _, v := range []any{"x'27'", []byte{1}, 1, nil} {
		if got, ok := (Dialect{}).Inline([]byte("id = "), v); ok || string(got) != "id = " {
			t.Errorf("%v became %s, it is to be bound", v, got)
		}
	}
}

// TestStatementCanBeReadWhileItRuns reads the list of processes while a batch waits for a lock. MySQL 9 shows no
// statement at all, error 3854, while one of them has bytes in its text that are not UTF-8.
func TestStatementCanBeReadWhileItRuns(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		fill(t, s, 3, "1, 5, 1, 1, -1, 4000000000000000, 'busy'")
		held, err := s.Read(t.Context(), text(s.Names, "SELECT id, fence FROM {task}"), nil)
		must(t, err)
		ids := dialect.Col[uuid.UUID]{held[0].ID, held[1].ID, {0xff, 0xfe}}
		lock := text(s.Names, "UPDATE {task} SET updated = updated + 1 WHERE id = :id")
		complete, args := s.Statements.Private["complete uniform"], dialect.Args{"id": ids, "fence": int64(1)}
		done := make(chan error, 1)
		must(t, s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			if _, err := s.Exec(ctx, c, lock, dialect.Args{"id": ids[1]}); err != nil {
				return err
			}
			go func() {
				done <- s.Autocommit(t.Context(), func(ctx context.Context, c dialect.Conn) error {
					_, err := s.ExecBatch(ctx, c, complete, args, len(ids))
					return err
				})
			}()
			shown, id := "", hex.EncodeToString(ids[2][:])
			const waiting = `
SELECT info
  FROM information_schema.processlist
 WHERE info LIKE CONCAT('UPDATE %', ?, '%')`
			for range 1000 { // another test's statement may have a payload of any bytes
				err = s.Pool.Write.QueryRowContext(ctx, waiting, id).Scan(&shown)
				if err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if !strings.Contains(shown, "x'"+id+"'") {
				t.Errorf("the list of processes shows %.300q (%v), want the statement that waits", shown, err)
			}
			return nil
		}))
		must(t, <-done)
	})
}
