package oracle

import (
	"embed"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/state"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

const (
	maxRows  = 500 // in a list of ids or of pairs, and in a batch; Oracle takes 1000 in a list
	maxTasks = 100 // in one block, with a dozen values each, and in a condition that names each
)

// Statements returns Oracle's texts, which are in the directory sql with a comment on each. A list of rows is given
// by ids or by pairs of id and fence. An update or a delete is a batch that the driver binds as arrays, and changes
// each row by its primary key. A batch cannot return the rows that it changed, so they are locked and read first.
//
// A value is bound only where the column beside it determines its type. No text is compared with a number.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	home := "SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')"
	if n.Schema != "" {
		home = "'" + strings.ToUpper(n.Schema) + "'" // as Oracle keeps it
	}
	st := kit.ReadStatements(sqlFiles, maxRows, n.Filler("{home}", home, "{taken_over}", fmt.Sprint(takenOver)))
	st.Style = dialect.Colon
	st.ForUpdate = "FOR UPDATE"
	st.Indexes = map[state.State]dialect.Index{
		state.Completed: {Newest: true}, state.Error: {Newest: true}, state.Poison: {Newest: true},
	}
	st.DropTable = unless(gone, "DROP TABLE {name} PURGE")
	st.DropView = unless(gone, "DROP VIEW {name}")
	for _, b := range []*dialect.Batch{&st.Insert, &st.Extend, &st.Record, &st.AddKeys, &st.SetKeyRates} {
		b.Max = maxTasks
	}
	st.Replace.Max = 1
	for name, b := range st.Private {
		if kit.OnLines(b.Row) { // a block or a condition for each row
			b.Max = maxTasks
			st.Private[name] = b
		}
	}
	one := st.Private["insert one"]
	one.Max = 1
	st.Private["insert one"] = one
	return st
}
