package dbq_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
)

// pooled is a dialect that says it notifies and whose LISTEN succeeds, as behind a pooler that passes nothing on.
type pooled struct{ sqlite.Dialect }

func (d pooled) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	s, err := d.Dialect.Probe(ctx, db)
	s.Notifies = true
	return s, err
}

func (d pooled) Statements(n dialect.Names) dialect.Statements {
	st := d.Dialect.Statements(n)
	st.Notify = "SELECT :channel, :payload"
	return st
}

func (d pooled) Listen(ctx context.Context, _ *dialect.Session, _ string, ready func(), _ func(string)) error {
	ready()
	<-ctx.Done()
	return ctx.Err()
}

func TestClientDoesNotTrustAConnectionThatHearsNothing(t *testing.T) {
	t.Parallel()
	pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	c, err := dbq.New(t.Context(), pool.Write, pooled{}, dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := c.Queue("q").Bell()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if c.Listening() {
			t.Fatal("the client says it listens, and it cannot have heard itself")
		}
	}
	if _, err := c.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Errorf("enqueue: %v", err)
	}
	select {
	case <-b.Wait(1):
	case <-time.After(time.Minute):
		t.Error("no ring for this process's enqueue")
	}
	b.Close()
}
