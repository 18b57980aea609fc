package sqlrun

import (
	"context"
	"database/sql"

	"github.com/dbq-go/dbq/dialect"
)

// fake is a dialect without an engine.
type fake struct {
	statements dialect.Statements
	classify   func(error) dialect.Class
}

func (fake) Name() string                                           { return "fake" }
func (fake) Probe(context.Context, *sql.DB) (dialect.Server, error) { return dialect.Server{}, nil }
func (fake) Migrations(dialect.Names) []dialect.Migration           { return nil }
func (f fake) Statements(dialect.Names) dialect.Statements          { return f.statements }
func (f fake) Classify(err error) dialect.Class                     { return f.classify(err) }
func (fake) Checkout(context.Context, *dialect.Session, dialect.CheckoutRequest) (dialect.CheckoutResult, error) {
	return dialect.CheckoutResult{}, nil
}
