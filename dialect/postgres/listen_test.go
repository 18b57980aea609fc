package postgres

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// A server that ends idle sessions does not end one that listens, and is idle until something happens.
func TestIdleListenerListens(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv("DBQ_TEST_POSTGRES18_DSN")
	if dsn == "" {
		t.Skip("set DBQ_TEST_POSTGRES18_DSN")
	}
	pool, err := Open(t.Context(), dsn+"&idle_session_timeout=1s", nil)
	check.OK(t, err)
	defer pool.Close()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	err = Dialect{}.Listen(ctx, pool.Write, t.Name(), func() {}, func(string) {})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("listening ended with %v", err)
	}
}
