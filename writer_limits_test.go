package dbq_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// As TestEachCallWaitsForTheWriterInItsOwnTime, with checkouts of a queue with limits: they wait for the gate, two at a
// time, and each only then for the writer.
func TestLimitedCheckoutsWaitForTheWriterInTheirOwnTime(t *testing.T) {
	t.Parallel()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db")+"?busy_timeout=0", dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = admin.New(c).ConfigureLimits(t.Context(), "q", func(l *admin.QueueLimits) { l.Leased = 100 })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue("q").EnqueueMany(t.Context(), make([]dbq.NewTask, 100)); err != nil {
		t.Fatal(err)
	}
	tx, err := c.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	begun := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.Queue("q").Checkout(t.Context(), 1, time.Minute); !errors.Is(err, dbq.ErrWriterBusy) {
				t.Errorf("got %v, want ErrWriterBusy", err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the last checkout waited for %v, with a busy_timeout of a second", took)
	}
}
