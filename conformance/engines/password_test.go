package engines

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// A password that is changed is used by the next connections, the one that listens included.
func TestEachConnectionRequestsItsPassword(t *testing.T) {
	t.Parallel()
	for _, name := range roleTargets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "producer")
			var password atomic.Value
			var requested atomic.Int64
			password.Store("p")
			u.dsn = asUser(t, u.dsn, u.name, "expired")
			c, err := u.open(dbq.WithPassword(func(context.Context) (string, error) {
				requested.Add(1)
				return password.Load().(string), nil
			}))
			check.OK(t, err)
			if _, err := c.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
				t.Fatal(err)
			}
			u.exec(map[string]string{
				"postgres": "ALTER USER " + u.name + " PASSWORD 'q'", "mysql": "ALTER USER " + u.name + " IDENTIFIED BY 'q'",
			}[u.admin.Info().Dialect])
			password.Store("q")
			before := requested.Load()
			c.DB().SetMaxIdleConns(0)
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := c.DB().PingContext(ctx); err != nil {
					t.Error(err)
				}
			}
			if got := requested.Load() - before; got < 2 {
				t.Errorf("two new connections requested %d passwords", got)
			}
		})
	}
}

func TestNoPasswordIsUnavailable(t *testing.T) {
	t.Parallel()
	none := errors.New("the token service is away")
	for _, name := range roleTargets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "producer")
			_, err := u.open(dbq.WithPassword(func(context.Context) (string, error) { return "", none }))
			if !errors.Is(err, dbq.ErrUnavailable) || !errors.Is(err, none) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		})
	}
}
