package engines

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
)

// grants are what a producer needs beside INSERT, by the target: to open, and to say which task a duplicate is. It reads no payload.
var grants = map[string][]string{
	"postgres18": {
		"GRANT SELECT ON {p}migration TO {u}",
		"GRANT INSERT ON {p}task TO {u}",
		"GRANT SELECT (id, queue, reference, state, fence, updated) ON {p}task TO {u}",
	},
	"mysql97": { // the fence of an insert is made of a column
		"GRANT SELECT ON {p}migration TO {u}",
		"GRANT INSERT, SELECT (created) ON {p}task TO {u}",
		"GRANT SELECT (id, queue, reference, state, fence, updated) ON {p}task TO {u}",
	}, "mariadb118": { // the fence of an insert is made of a column
		"GRANT SELECT ON {p}migration TO {u}",
		"GRANT INSERT, SELECT (created) ON {p}task TO {u}",
		"GRANT SELECT (id, queue, reference, state, fence, updated) ON {p}task TO {u}",
	},
}

func TestProducerNeedsNoRightToReadPayloads(t *testing.T) {
	t.Parallel()
	for name, statements := range grants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := os.Getenv(target{name: name}.variable())
			if dsn == "" {
				t.Skip("no server: set " + target{name: name}.variable())
			}
			id := dbq.NewID()
			user := fmt.Sprintf("dbqp_%x", id[10:])
			prefix := user + "_"
			admin, err := dbq.Open(t.Context(), dsn, dbq.WithPrefix(prefix), dbq.WithMigrate())
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			run := func(texts ...string) {
				t.Helper()
				for _, text := range texts {
					if _, err := admin.DB().ExecContext(context.WithoutCancel(t.Context()), strings.NewReplacer("{p}", prefix, "{u}", user).Replace(text)); err != nil {
						t.Errorf("%s: %v", text, err)
					}
				}
			}
			defer func() {
				if err := dbq.DropTables(context.WithoutCancel(t.Context()), dsn, dbq.WithPrefix(prefix)); err != nil {
					t.Error(err)
				}
				run("DROP USER {u}")
			}()
			create := map[string]string{"postgres": "CREATE USER {u} PASSWORD 'p'", "mysql": "CREATE USER {u} IDENTIFIED BY 'p'"}
			run(create[admin.Dialect()])
			run(statements[:2]...)
			producer, err := dbq.Open(t.Context(), as(t, dsn, user), dbq.WithPrefix(prefix), dbq.WithoutNotify())
			if err != nil {
				t.Fatal(err)
			}
			defer producer.Close()
			q := producer.Queue("q")
			if _, err := q.Enqueue(t.Context(), dbq.NewTask{Payload: []byte("secret")}); err != nil {
				t.Fatal(err)
			}
			first, err := admin.Queue("q").Enqueue(t.Context(), dbq.NewTask{Reference: "r"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = q.Enqueue(t.Context(), dbq.NewTask{Reference: "r"})
			if !errors.Is(err, dbq.ErrDenied) || errors.Is(err, dbq.ErrMayHaveHappened) {
				t.Errorf("a duplicate without the right to look it up: got %v, want ErrDenied alone", err)
			}
			run(statements[2:]...)
			if got, err := q.Enqueue(t.Context(), dbq.NewTask{Reference: "r"}); !errors.Is(err, dbq.ErrDuplicate) || got != first {
				t.Errorf("a duplicate: got %v, %v, want ErrDuplicate of %v", got, err, first)
			}
			if _, err := producer.Get(t.Context(), first); !errors.Is(err, dbq.ErrDenied) {
				t.Errorf("reading a task: got %v, want ErrDenied", err)
			}
		})
	}
}

// as is a DSN as another user.
func as(t *testing.T, dsn, user string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "p")
	return u.String()
}
