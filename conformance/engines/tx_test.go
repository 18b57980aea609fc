package engines

import (
	"database/sql"
	"reflect"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
)

// What is no transaction does not compile where one is wanted.
func TestOnlyTransactionsCompileAsTx(t *testing.T) {
	t.Parallel()
	for want, types := range map[bool][]reflect.Type{
		true: {
			reflect.TypeFor[*sql.Tx](), reflect.TypeFor[*sqlx.Tx](), reflect.TypeFor[postgres.Transaction](),
		},
		false: {
			reflect.TypeFor[*sql.DB](), reflect.TypeFor[*sql.Conn](), reflect.TypeFor[*sqlx.DB](), reflect.TypeFor[*sqlx.Conn](),
			reflect.TypeFor[*pgx.Conn](), reflect.TypeFor[*pgxpool.Pool](), reflect.TypeFor[*pgxpool.Conn](),
			reflect.TypeFor[pgx.Tx](),
		},
	} {
		for _, which := range types {
			if got := which.Implements(reflect.TypeFor[dbq.Tx]()); got != want {
				t.Errorf("%v is a Tx: %v, want %v", which, got, want)
			}
		}
	}
	for _, which := range []reflect.Type{reflect.TypeFor[*pgx.Conn](), reflect.TypeFor[*pgxpool.Pool](),
		reflect.TypeFor[*pgxpool.Conn]()} {
		if which.Implements(reflect.TypeFor[pgx.Tx]()) {
			t.Errorf("postgres.Tx takes a %v", which)
		}
	}
}
