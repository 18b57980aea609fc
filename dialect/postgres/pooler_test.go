package postgres

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/jackc/pgx/v5"
)

// A pooler that shares sessions is found, named, and either served by the mode that works behind it or refused with
// that mode named.
func TestPooler(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv("DBQ_TEST_PGBOUNCER_DSN")
	if dsn == "" {
		t.Skip("set DBQ_TEST_PGBOUNCER_DSN to a PgBouncer in transaction mode")
	}
	for mode, refused := range map[string]bool{
		"": false, "exec": false,
		"cache_statement": true, "cache_describe": true, "describe_exec": true, "simple_protocol": true,
	} {
		t.Run(mode, func(t *testing.T) {
			with := dsn
			if mode != "" {
				with = dsn + "&default_query_exec_mode=" + mode
			}
			pool, err := Open(t.Context(), with, nil)
			check.OK(t, err)
			defer pool.Close()
			for range 20 { // found each time, whichever of its servers a client gets
				wantPooler(t, pool.Write, refused, mode)
			}
			if refused {
				return
			}
			const answers = 50
			done := make(chan error, answers)
			for range answers {
				go func() {
					var n int
					done <- pool.Write.QueryRowContext(t.Context(), "SELECT $1::integer", 7).Scan(&n)
				}()
			}
			for range answers {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Programs of a fleet start at the same time, and so may send their statements at the same pace.
func TestPoolerIsFoundByClientsThatStartTogether(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv("DBQ_TEST_PGBOUNCER_DSN")
	if dsn == "" {
		t.Skip("set DBQ_TEST_PGBOUNCER_DSN to a PgBouncer in transaction mode")
	}
	const rounds, clients = 500, 2
	for range rounds {
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				conn, err := pgx.Connect(t.Context(), dsn)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close(t.Context())
				if shares, err := sharesSessions(t.Context(), conn); err != nil || !shares {
					t.Errorf("found: %v, %v", shares, err)
				}
			})
		}
		all.Wait()
	}
}

func wantPooler(t *testing.T, db *sql.DB, refused bool, mode string) {
	t.Helper()
	server, err := Dialect{}.Probe(t.Context(), db)
	switch {
	case refused && (!errors.Is(err, dialect.ErrDSN) ||
		!strings.Contains(err.Error(), "set default_query_exec_mode=exec") ||
		!strings.Contains(err.Error(), "(it is "+mode+")")):
		t.Errorf("got %v, want an error that names what to change", err)
	case !refused && (err != nil || server.Pooler != poolerName):
		t.Errorf("got %+v, %v, want the pooler to be named", server, err)
	}
}

// A server that is reached directly has no pooler before it, whatever the mode.
func TestDirectConnectionHasNoPooler(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv("DBQ_TEST_POSTGRES18_DSN")
	if dsn == "" {
		t.Skip("set DBQ_TEST_POSTGRES18_DSN")
	}
	pool, err := Open(t.Context(), dsn+"&pool_max_conns=1", nil)
	check.OK(t, err)
	defer pool.Close()
	if server, err := (Dialect{}).Probe(t.Context(), pool.Write); err != nil || server.Pooler != "" {
		t.Errorf("got %+v, %v, want no pooler", server, err)
	}
}
