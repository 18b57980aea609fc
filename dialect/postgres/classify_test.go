package postgres

import (
	"fmt"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestClassifyBySQLSTATE(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]dialect.Class{
		"23505": dialect.Duplicate,
		"40001": dialect.Conflict, "40P01": dialect.Conflict, "55P03": dialect.Conflict, "57014": dialect.Conflict,
		"40003": dialect.Ambiguous, "08006": dialect.Ambiguous, "08P01": dialect.Ambiguous,
		"57P01": dialect.Unavailable, "57P02": dialect.Unavailable, "57P03": dialect.Unavailable,
		"53300": dialect.Unavailable, "53400": dialect.Unavailable,
		"25006": dialect.Unavailable, "3D000": dialect.Unavailable,
		"53000": dialect.Unavailable, "53100": dialect.Unavailable, "53200": dialect.Unavailable,
		"58000": dialect.Unavailable, "58030": dialect.Unavailable, "57P04": dialect.Unavailable,
		"57P05": dialect.Unavailable, "25P03": dialect.Unavailable, "25P04": dialect.Unavailable,
		"42P01": dialect.Missing, "42703": dialect.Missing, "3F000": dialect.Missing,
		"42501": dialect.Denied, "28000": dialect.Denied, "28P01": dialect.Denied,
		"22001": dialect.Invalid, "22021": dialect.Invalid, "23514": dialect.Invalid,
		"23502": dialect.Invalid, "54000": dialect.Invalid,
		"42601": dialect.Unknown, "25P02": dialect.Unknown, "XX000": dialect.Unknown, "0A000": dialect.Unknown,
	} {
		err := fmt.Errorf("outer: %w", &pgconn.PgError{Code: code})
		if got := (Dialect{}).Classify(err); got != want {
			t.Errorf("%s: got %v, want %v", code, got, want)
		}
	}
}

// A code that is none must not end the program.
func TestClassifyAnErrorWithoutCode(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"", "4"} {
		if got := (Dialect{}).Classify(&pgconn.PgError{Code: code}); got != dialect.Unknown {
			t.Errorf("%q: got %v, want unknown", code, got)
		}
	}
}

func TestClassifyForeignErrors(t *testing.T) {
	t.Parallel()
	dialecttest.ClassifiesWhatIsNotTheServers(t, Dialect{}, nil)
}
