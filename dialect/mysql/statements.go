package mysql

import (
	"embed"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/state"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// The statements that begin a transaction. Sessions of Open's pool have the isolation level already.
const (
	isolation = "TRANSACTION ISOLATION LEVEL READ COMMITTED"
	begin     = "START TRANSACTION"
)

// maxRows is the maximum number of rows in one statement; a list of this size is still parsed quickly.
const maxRows = 500

// lockName is the name of a session lock: :name within the tables' database. It is hashed, because MySQL accepts at
// most 64 characters; every supported version has SHA2. {home} is the database, so that clients that name it in an
// option and clients that name it in the DSN have the same locks. It is in lower case, because some servers do not
// preserve the case of database names.
const lockName = "LEFT(SHA2(CONCAT(LOWER({home}), ' ', :name), 256), 60)"

// filler writes names and computed values into a text.
func filler(n dialect.Names) func(text string) string {
	home := "DATABASE()"
	if n.Schema != "" {
		home = "'" + n.Schema + "'"
	}
	return n.Filler("{lock_name}", strings.ReplaceAll(lockName, "{home}", home), "{home}", home)
}

// Statements returns the texts for MySQL and MariaDB, which are in the directory sql with a comment on each. A batch
// finds its rows by primary key only, so that no other row is locked: by a list of ids or, if more than ids are
// needed, by a list of SELECTs that drives a join (STRAIGHT_JOIN). The index is forced, because both products scan a
// table that seems small. A list of pairs, (id, fence) IN (...), is not an option: for a single pair MariaDB scans
// the whole table, and for many it chooses its own join order.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	fill := filler(n)
	st := kit.ReadStatements(sqlFiles, maxRows, fill)
	st.Style = dialect.Question
	st.ForUpdate = "FOR UPDATE"
	st.Replace.Max = 1
	st.Begin = []string{"SET " + isolation, begin}
	st.Assignments = []string{"due = NULL", "due_at = -1", "due = {now}", "due_at = {now}",
		"lease_until = NULL", "lease_end = -1", "taken = NULL", "taken_at = -1"}
	st.Indexes = map[state.State]dialect.Index{
		state.Created:    {Where: "lane = 0", Order: "priority, due_at"},
		state.Processing: {Where: "lane = 9", Order: "priority, due_at", Filter: "lane = 9 /* PROCESSING */"},
		state.Completed: {Where: "lane = 2 AND due_at = -1", Order: "priority, due_at, id",
			IDs: dialect.IDsOrderedByPriority},
		state.Error: {Where: "lane IN (0, 3)", Order: "lane, priority, due_at"},
		state.Poison: {Where: "lane = 4 AND due_at = -1", Order: "priority, due_at, id",
			IDs: dialect.IDsOrderedByPriority, Filter: "lane = 4 /* POISON */"},
	}
	for in, index := range st.Indexes {
		index.Hint = fill("FORCE INDEX ({prefix}task_lane)")
		st.Indexes[in] = index
	}
	return st
}
