package sqlrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

var errLeak = errors.New("cause")

// registerLeak registers a driver whose errors show the DSN, once for the process.
var registerLeak = sync.OnceFunc(func() {
	dialect.Register(dialect.Driver{
		Schemes: []string{"leak"}, Dialect: fake{},
		Open: func(_ context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			return dialect.Pool{}, fmt.Errorf("parse %q: %w", dsn, errLeak)
		},
	})
})

func TestOpenScrubsTheDriversError(t *testing.T) {
	t.Parallel()
	registerLeak()
	d, _, err := Open(t.Context(), "leak://app:hush@h/d", nil)
	if !errors.Is(err, errLeak) || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
	if d.Dialect == nil {
		t.Error("no dialect is returned that knows what the error means")
	}
}
