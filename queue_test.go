package dbq_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
)

// speechless is a dialect whose server stops serving after an insert, as one does that is shut down: it refuses to answer what is there.
type speechless struct{ sqlite.Dialect }

func (d speechless) Statements(n dialect.Names) dialect.Statements {
	s := d.Dialect.Statements(n)
	s.Peek.SQL = strings.Replace(s.Peek.SQL, n.Table("task"), "server_is_shutting_down", 1)
	return s
}

func (d speechless) Classify(err error) dialect.Class {
	if strings.Contains(err.Error(), "server_is_shutting_down") {
		return dialect.Unavailable
	}
	return d.Dialect.Classify(err)
}

// An enqueue that was done, and whose question about a duplicate is not answered any more, is not said not to have happened.
func TestEnqueueThatIsNotToldAboutItsDuplicatesMayHaveHappened(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "queue.db")
	c, err := dbq.Open(ctx, dsn, dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Queue("q").Enqueue(ctx, dbq.NewTask{Reference: "taken"}); err != nil {
		t.Fatal(err)
	}
	broken, err := dbq.New(ctx, c.DB(), speechless{})
	if err != nil {
		t.Fatal(err)
	}
	id := dbq.NewID()
	_, err = broken.Queue("q").EnqueueMany(ctx, []dbq.NewTask{{ID: id}, {Reference: "taken"}})
	if !errors.Is(err, dbq.ErrMayHaveHappened) || errors.Is(err, dbq.ErrUnavailable) {
		t.Errorf("got %v, want ErrMayHaveHappened", err)
	}
	if _, err := c.Get(ctx, id); err != nil {
		t.Errorf("the task is not there, so this test shows nothing: %v", err)
	}
}
