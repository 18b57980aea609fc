package dbqtest

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// clock is a table with how far the clock of a test's statements is ahead of the database's.
type clock struct{ table string }

func clockTable(prefix string) string { return prefix + "clock" }

// create makes the table.
func (c clock) create(ctx context.Context, client *dbq.Client) error {
	number := "BIGINT"
	if client.Info().Dialect == "oracle" {
		number = "NUMBER(19)"
	}
	for _, text := range []string{
		fmt.Sprintf("CREATE TABLE %s (id %s PRIMARY KEY, micros %[2]s NOT NULL)", c.table, number),
		fmt.Sprintf("INSERT INTO %s (id, micros) VALUES (1, 0)", c.table),
	} {
		if _, err := client.DB().ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (c clock) advance(ctx context.Context, db *sql.DB, by time.Duration) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET micros = micros + %d", c.table, by.Microseconds()))
	return err
}

// move makes the statements of a client read this clock instead of the database's.
func (c clock) move(s *sqlrun.Session) { s.MoveClock("(SELECT micros FROM " + c.table + ")") }
