package sqlrun

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

var errExists = errors.New("ORA-00001")

// remoteConn answers each statement after a while with an error, or falls silent at a ROLLBACK.
type remoteConn struct{ silentAtRollback bool }

func (c remoteConn) Exec(ctx context.Context, query string, _ ...any) (int64, error) {
	switch {
	case strings.HasPrefix(query, "ROLLBACK") && c.silentAtRollback:
		<-ctx.Done()
		return 0, ctx.Err()
	case strings.HasPrefix(query, "INSERT"):
		time.Sleep(time.Second)
		return 0, errExists
	}
	return 0, nil
}

func (remoteConn) Query(context.Context, string, []any, func(dialect.Rows) error) error { return nil }

// The server falls silent at the rollback to the savepoint: the call waits without a bound, whatever its deadline.
func TestUndoableEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := NewSession(fake{classify: kit.ClassifyConn}, dialect.Pool{}, dialect.Server{}, dialect.Names{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Undoable(ctx, remoteConn{silentAtRollback: true}, func() error { return errors.New("wrong queue") })
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("20 seconds after a deadline of 0.1 seconds, the call still waits")
	}
}

// The server answers each INSERT within a second, with ORA-00001, as in oracle.insert for given ids that exist: the try
// takes it for silent.
func TestRefusalsAreAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSession(fake{classify: kit.ClassifyConn}, dialect.Pool{}, dialect.Server{}, dialect.Names{})
		try := s.try(t.Context())
		for range 15 {
			if _, err := s.Exec(try, remoteConn{}, "INSERT", nil); !errors.Is(err, errExists) {
				t.Fatal(err)
			}
		}
		if err := try.Err(); err != nil {
			t.Errorf("a server that answers each second: %v", context.Cause(try))
		}
		_ = try.end(nil)
	})
}
