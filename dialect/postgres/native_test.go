package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// TestPipeline checks that statements of ExecLater run in order, before the next statement or the commit, in its
// transaction, and that an error of one rolls all of them back.
func TestPipeline(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		put := func(ctx context.Context, c dialect.Conn, name string) *int64 {
			touched, err := s.ExecLater(ctx, c, s.Texts.AddKV, dialect.Args{"namespace": "pipeline", "name": name,
				"value": "", "ttl": (*int64)(nil)})
			must(t, err)
			return touched
		}
		names := func(ctx context.Context, c dialect.Conn) string {
			rows, err := sqlrun.QueryAs[sqlrun.KVRow](ctx, s, c, s.Texts.ListKV,
				dialect.Args{"namespace": "pipeline", "limit": 10})
			must(t, err)
			var out []string
			for _, row := range rows {
				out = append(out, row.Name)
			}
			return strings.Join(out, " ")
		}
		stop := errors.New("stop")
		for name, f := range map[string]func(ctx context.Context, c dialect.Conn) error{
			"nothing is run": func(context.Context, dialect.Conn) error { return stop },
			"the caller fails": func(ctx context.Context, c dialect.Conn) error {
				if first, again := put(ctx, c, "x"), put(ctx, c, "x"); names(ctx, c) != "x" || *first != 1 || *again != 0 {
					t.Errorf("rows affected: %d and %d, want 1 and 0", *first, *again)
				}
				return stop
			},
			"a later statement fails": func(ctx context.Context, c dialect.Conn) error {
				put(ctx, c, "y")
				_, err := s.ExecLater(ctx, c, "SELECT 1 / 0", nil)
				must(t, err)
				return nil // the commit has the error
			},
		} {
			if err := s.Tx(t.Context(), f); err == nil || s.Class(err) == dialect.Ambiguous {
				t.Errorf("%s: got %v of class %v, want an error of which nothing has happened", name, err, s.Class(err))
			}
		}
		must(t, s.Tx(t.Context(), func(context.Context, dialect.Conn) error { return nil }))
		must(t, s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			put(ctx, c, "a")
			if _, err := s.Exec(ctx, c, s.Texts.DropKV, dialect.Args{"namespace": "pipeline", "name": "a"}); err != nil {
				return err
			}
			put(ctx, c, "b")
			return nil // it is sent with the commit
		}))
		must(t, s.Do(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			if got := names(ctx, c); got != "b" {
				t.Errorf("the records are %q, want those of the transaction that was committed", got)
			}
			return nil
		}))
	})
}
