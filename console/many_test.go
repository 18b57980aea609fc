package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestOverviewOfTenThousandQueues has so many queues without a worker that a page cannot list them.
func TestOverviewOfTenThousandQueues(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it counts 10,000 queues, which takes some seconds")
	}
	db := dbqtest.New(t)
	tx, err := db.DB().BeginTx(t.Context(), nil)
	check.OK(t, err)
	const queues = 10_000
	for i := range queues {
		_, err := db.Queue(fmt.Sprintf("tenant-%05d", i)).EnqueueTx(t.Context(), tx, dbq.NewTask{})
		check.OK(t, err)
	}
	check.OK(t, tx.Commit())
	// The count itself takes as long as the machine does, here also with the race detector and beside other tests.
	const patience = 3 * time.Minute
	s := serveWith(t, console.Config{
		Databases: map[string]*dbq.Client{"shop": db.Client}, Authenticator: ann, Timeout: patience,
	})
	s.http.Timeout = patience
	page := s.get(200, "/db/shop/")
	s.shows(page, "1 problem", "10,000 queues have due tasks and no worker", "Among them are tenant-",
		"10,000, those with trouble first")
	answer, _ := s.answer("/db/shop/", "Accept-Encoding", "gzip")
	if n := answer.ContentLength; n <= 0 || n > 60<<10 {
		t.Errorf("a browser gets %d bytes, want at most 60 KiB", n)
	}
}
