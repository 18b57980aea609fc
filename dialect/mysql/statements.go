package mysql

import (
	"embed"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// What begins a transaction. Sessions of Open's pool have the isolation level already.
const (
	isolation = "TRANSACTION ISOLATION LEVEL READ COMMITTED"
	begin     = "START TRANSACTION"
)

// maxRows in one statement; a list of this many rows is still read fast.
const maxRows = 500

// lockName is the name of a lock of the session, which :name names within the tables' database. It is hashed,
// since MySQL accepts at most 64 characters; every supported version has SHA2. {home} is the database, so that clients
// that name it and clients whose DSN does have the same locks. It is in lower case, because some servers report names
// of databases in either case.
const lockName = "LEFT(SHA2(CONCAT(LOWER({home}), ' ', :name), 256), 60)"

// filler writes names, and what is computed in Go, into a text.
func filler(n dialect.Names) func(text string) string {
	home := "DATABASE()"
	if n.Schema != "" {
		home = "'" + n.Schema + "'"
	}
	return n.Filler("{lock_name}", strings.ReplaceAll(lockName, "{home}", home), "{home}", home)
}

// Statements are MySQL's and MariaDB's texts, which are in the directory sql with comments on each. What a batch
// changes is found by primary key alone, so that nothing else is locked: by a list of ids, or, where more than ids
// matters, by a list of SELECTs that drives a join (STRAIGHT_JOIN). The index is forced, since both products scan a
// table that seems small. A list of pairs, (id, fence) IN (...), is not an option: MariaDB scans the whole table for
// a single pair, and chooses its own join order for many.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	fill := filler(n)
	st := dialect.ReadStatements(sqlFiles, maxRows, fill)
	st.Style = dialect.Question
	st.ForUpdate = "FOR UPDATE"
	st.Replace.Max = 1
	st.Begin = []string{"SET " + isolation, begin}
	st.Assignments = []string{"due = NULL", "due_at = -1", "due = {now}", "due_at = {now}",
		"lease_until = NULL", "lease_end = -1", "taken = NULL", "taken_at = -1"}
	st.InState = map[state.State]string{state.Processing: "lane = 9 /* PROCESSING */",
		state.Poison: "lane = 4 /* POISON */"}
	return st
}
