package dbq

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
)

// TestMain keeps what is logged by default out of the tests' output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// A client logs by slog.Default, unless WithLogger says otherwise.
func TestDefaultLogger(t *testing.T) {
	t.Parallel()
	c, err := newConfig("", nil)
	if err != nil || c.logger != slog.Default() {
		t.Errorf("got %v, %v, want slog.Default()", c.logger, err)
	}
}

// What Checkout moves to POISON is one line, with the number of the tasks; so is a migration that changed something.
func TestCheckoutLogsWhatItMovesToPoison(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "q.db")
	for range 2 {
		c, err := Open(t.Context(), dsn, WithMigrate(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		check.OK(t, err)
		defer c.Close()
		q := c.Queue("q")
		once := NewTask{MaxAttempts: 1}
		if _, err := q.EnqueueMany(t.Context(), []NewTask{once, once, once}); err != nil {
			t.Fatal(err)
		}
		ts, err := q.Checkout(t.Context(), 3, MinLease)
		if err != nil || len(ts) != 3 {
			t.Fatalf("got %d tasks, %v", len(ts), err)
		}
		gone := func() bool { // by the database's clock
			return !slices.ContainsFunc(ts, func(task Task) bool {
				now, err := c.Get(t.Context(), task.ID)
				return err != nil || now.State == StateProcessing
			})
		}
		for end := time.Now().Add(10 * time.Second); !gone() && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, err := q.Checkout(t.Context(), 3, MinLease); err != nil {
				t.Fatal(err)
			}
		}
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	var got []string
	for _, l := range lines {
		_, text, _ := strings.Cut(l, "level=")
		got = append(got, text)
	}
	poisoned := func(text string) bool { return strings.HasPrefix(text, "ERROR") && strings.Contains(text, "tasks=3") }
	if len(got) != 3 || !strings.HasPrefix(got[0], `INFO msg="dbq: migrated the tables" from=0`) ||
		!poisoned(got[1]) || !poisoned(got[2]) {
		t.Errorf("got\n%s", log.String())
	}
}
