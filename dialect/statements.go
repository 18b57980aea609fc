package dialect

import (
	"reflect"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/state"
)

// Statements are the texts that the core runs, plain guarded SQL that a DBA can read. Values are named as :name and bound by
// the core; a name may be used several times or not at all. A literal must not hold a colon or a question mark.
//
// States are written as literals (state.Literals), never bound. :lease, :after, :delay and :age are microseconds.
// Where a comment names columns that a statement returns, they are found by name.
type Statements struct {
	Style PlaceholderStyle
	// Begin starts a write transaction at READ COMMITTED or the engine's equal. Empty leaves beginning and ending to the driver, for
	// one that commits each statement by itself until it is told of a transaction.
	Begin []string
	Now   string // an SQL expression: the database's clock in microseconds since 1970, one value for a whole statement
	Dual  string // what the engine wants behind a SELECT that reads no table, such as "FROM dual"; empty for most

	// Version returns the newest migration as version, and as compatible the oldest version whose programs work with the tables; a missing
	// table is an error of class Missing. SetVersion takes :version, :title and :compatible. MigrationTable makes the table of both, if need be, and the schema it is in. MigrationLock is run
	// first and waits for other migrations of the tables whose prefix is :name, in the schema of Names; it may be empty where Begin does that. With a MigrationUnlock it is taken
	// before the transaction and freed after it, else it is the transaction's.
	Version, SetVersion            string
	MigrationLock, MigrationUnlock string
	MigrationTable                 []string
	// Drop removes every table, view and index that the migrations made. What is not there is no error.
	Drop []string

	// Insert adds tasks: :id :reused :queue :reference :kind :priority :at :delay :max_attempts :headers :payload :payload_size, due at :at,
	// or :delay from now when :at is null. The size is null for no payload. It returns the id of each row really added. A row whose id or
	// (reference, queue) exists is left out, and the surrounding transaction stays usable.
	//
	// The fence of a new row begins at 0. With :reused, 1 instead of 0, a row may have had this id before, and its fence begins where that
	// one's never was: at the database's clock in microseconds. An engine whose clock is coarser, on the caller's own machine, takes the
	// later one of it and :clock, the caller's, which is no column.
	Insert Batch
	// InsertAlike is Insert for new rows without a reference, which share all values but :id, :payload and :payload_size, which alone are
	// columns. It returns nothing; a row whose id exists is an error of class Duplicate. It may be empty. When it is Timed, it is due at :delay from :now.
	InsertAlike Batch
	// Settle ends attempts: :id :fence :state :at :after :uncount :result :result_size. It takes rows that are PROCESSING under this
	// fence, and returns their id, fence and new state. The row is due at :at, or :after from now, or parked when both are null.
	// State ERROR with a due time becomes POISON when attempt >= max_attempts. :uncount is taken off the attempts. A null
	// :result leaves the old result when :state is CREATED, and clears it otherwise.
	//
	// Settle, Complete, Remove and RemoveAlike wait for a row that another transaction has locked no longer than :lock_wait, in
	// milliseconds, and are an error of class Conflict then, if the statement can bound its own wait; null, as in a caller's
	// transaction, leaves the session's bound. A dialect that cannot do that sets a bound of about a second for the sessions that its
	// Open makes, or sets Server.LongLockWaits.
	Settle Batch
	// Unlocked locks those rows of :id that no other transaction has locked, passes the others by, and returns their
	// ids. It is empty where a transaction does not lock single rows.
	Unlocked Batch
	// Complete is Settle for rows that become COMPLETED without a result, all under one :fence, which is no column here: :id. It returns their
	// id. It may be empty; it is worth having where a statement is faster when its rows share all but their id.
	Complete Batch
	// Remove deletes PROCESSING rows under a fence: :id :fence. It returns their id and fence.
	Remove Batch
	// RemoveAlike is Remove for rows under one :fence, as Complete is Settle: :id. It returns their id. It may be empty, and is not used without
	// Complete.
	RemoveAlike Batch
	// Extend renews leases to end at now plus :lease, of PROCESSING rows: :id :fence. It returns their id and fence. Where a transaction
	// may fail because another has changed a row since it began, or wait for its lock, a renewal must neither write the task's row nor
	// lock it: keep renewals in a table of their own, where a takeover finds them. No two rows have the same id.
	Extend Batch
	// Start sets started to 1 in PROCESSING rows under a fence: :id :fence. It returns their id and fence. Doing it twice is doing it once.
	Start Batch
	// DropLeases removes renewals of leases that have ended: :id :fence. It returns nothing. ExpireLeases removes at most :limit that
	// ended at least :age ago. Both are empty where Extend writes the task's row.
	DropLeases   Batch
	ExpireLeases string
	// Move does an operator's event to rows given by :id, whatever their fence; guards come from the state table. For
	// Purge it returns the id of each row that was removed. For the others it has a First, which locks the rows that
	// move, by id, and returns their id, queue, state, attempt, fence, holder, updated and result as they were, and the
	// database's clock as now.
	Move map[state.Event]Batch
	// SetResult replaces the result of rows that the same transaction has changed, and so locked: :id :result
	// :result_size. It returns nothing.
	SetResult Batch

	// Get returns the whole row of :id. Held returns the whole rows that are PROCESSING in :queue under :holder.
	Get, Held string
	// Exhausted returns the whole rows of :queue that the checkout under :holder moved to POISON, each with who held
	// it. Their result names both. It is empty where no index leads to such tasks; then a checkout whose answer is lost
	// does not report them.
	Exhausted string
	// List returns rows without their payload, by id, ascending or descending as {order} behind ORDER BY says: its
	// {where} is filled by the core with comparisons of plain columns and :names, and :limit bounds it. FindIDs is the
	// same but returns only ids.
	List, FindIDs string
	// IDBehind returns the id that is :offset tasks behind the first one above :after, unless it is not below :before.
	// It reads the primary key only.
	IDBehind string
	// InState is what else is true of each row in a state, in words that let the engine find these rows by an index;
	// the core adds it to a filter for just that state. It may be empty.
	InState map[state.State]string
	// Peek returns id, queue, state, fence and updated of the rows that exist: :id.
	Peek Batch
	// FindReference returns the id of the task with :reference in :queue.
	FindReference string
	// Count returns CountRows of all tasks. CountUpTo returns those of :queue, which it need not name, and counts up to :limit tasks of each
	// state by indexes, or what else does not grow with the table. Its OldestDue is exact. NextQueue returns the first queue after :queue by name
	// that CountUpTo would find tasks of. States that it cannot count so are counted by CountNewest among the newest :limit tasks of all
	// queues, and named in Newest; both are empty where there is none.
	Count, CountUpTo, CountNewest, NextQueue string
	Newest                                   []state.State
	// Next returns one row: as due when the next task of :queue may be taken, the earliest due time or end of a lease, null when
	// there is none or the queue is paused, and the database's clock as now. It must not lock, and cost no more for many tasks than for few.
	Next string
	// Notify tells all who listen on :channel that :payload, at once when it is no part of a transaction; see Listener. It may be empty.
	Notify string

	// Notes are small facts that all who work on the same tables share, by :kind and :name. Note returns one as a NoteRow, Notes those of
	// a :kind by their names, at most :limit. AddNote adds one of version 1 with :value, which ends :ttl from now, or never when :ttl is null, and
	// does nothing where there is one, or fails with an error of class Duplicate. SetNote gives one of :version a new :value and :ttl and the next version. DropNote removes one,
	// ExpireNotes those of :kind that ended at least :age ago. What changed is told by the number of rows.
	Note, Notes, AddNote, SetNote, DropNote, ExpireNotes string

	// Record adds attempts to the history: :id (the task's) :fence :queue :attempt :outcome :started :ended :worker :error. One that is there is
	// left out. It returns nothing. Attempts returns AttemptRows of the task :id in order, at most :limit. ExpireAttempts removes at most
	// :limit of :queue that ended at least :age ago. RecordAlike is Record for attempts without an error that share :outcome and :worker, which are no
	// columns; one that is there is an error of class Duplicate. It may be empty.
	Record, RecordAlike      Batch
	Attempts, ExpireAttempts string
	// Archive copies rows given by :id into the archive, if Purge would remove them, and locks them: Purge follows in the same transaction. A
	// row that is in the archive already stays as it is. It returns nothing, but where it has a First. ListArchive is List for the archive.
	Archive     Batch
	ListArchive string

	// Checkout holds what the dialect's own Checkout runs, by name, so that it is printed and golden-filed with the rest.
	Checkout map[string]string
	// CheckoutBatch is the same for statements of checkout that take several rows.
	CheckoutBatch map[string]Batch
}

// optional are the fields of Statements that a dialect may leave empty.
var optional = []string{"Begin", "Dual", "MigrationLock", "MigrationUnlock", "InsertAlike", "Complete", "RemoveAlike", "DropLeases",
	"ExpireLeases", "Unlocked", "Exhausted", "InState", "Notify", "RecordAlike", "CountNewest", "Newest"}

// MayBeEmpty reports whether the core does without the field of this name, as its comment says. Every other one must be filled; what a
// dialect puts into Checkout and CheckoutBatch is its own business.
func (Statements) MayBeEmpty(field string) bool { return slices.Contains(optional, field) }

// A Batch is a statement that takes many rows at once: some of its values are columns (Column), with one value for each row. The core
// cuts the rows into parts of at most Max and runs the batch for each part.
//
// The rows get into a text in one of two ways:
//
//   - as arrays, where Row is empty: a column is bound as a slice, every other value as it is, or with Repeat as a slice of equal values;
//   - as a list, else: {rows} is replaced by Row, once for each row, with Sep in between.
//
// For two rows, with :id as their column, these
//
//	Batch{SQL: "DELETE FROM t WHERE id = ANY (:id) AND queue = :queue", Max: 5000}
//	Batch{SQL: "DELETE FROM t WHERE id IN ({rows}) AND queue = :queue", Row: ":id", Sep: ", ", Max: 500}
//
// are sent as
//
//	DELETE FROM t WHERE id = ANY ($1) AND queue = $2    -- $1 is a slice of two
//	DELETE FROM t WHERE id IN (?, ?) AND queue = ?
//
// The rows that SQL changed are told in one of four ways, each for what an engine can do:
//
//   - SQL alone returns them, or nothing where Statements asks for nothing.
//   - First, then SQL: First locks and returns the rows that SQL will change, as they will be. When there are none, SQL is not run.
//   - First, SQL, then After: After says how those are that First returned.
//   - SQL, then After: After returns the rows that are there then, for an insert; the core asks beforehand which were there already.
//
// First and After take their rows like SQL, or as a list of ReadRow. With either, ExplicitTx must be set, but for Complete and
// RemoveAlike, for whose lists there is a transaction then. Counts and One are shorter ways
// beside these, for a batch that has no more to tell than which of the rows that it was given it changed.
type Batch struct {
	SQL string // the change, or the question
	Row string // one row of the list in SQL, and in First and After where ReadRow is empty
	Sep string // in between the rows of every list
	Max int    // rows in one statement at most

	// Sizes are the numbers of rows that a statement may have, from the largest to 1, for an engine that keeps a plan for each text that it has seen.
	// Nil is any number up to Max.
	Sizes []int
	// Apart names a column of payloads, for a driver that binds one of more than Long bytes as another type: rows in a row that are of one kind go
	// in statements of their own, so that there are two shapes of a text, and not one for each order of kinds. "" for none.
	Apart string
	Long  int

	// Repeat is for a driver that runs a statement once for each row of its arrays, and wants all of its values so.
	Repeat bool

	// First and After are for engines that cannot return the rows that a statement changed.
	First, After string
	ReadRow      string // one row of the list in First and After

	// Counts says that the number of rows that SQL touched is the number that it changed or added. When that is all that it was given, or nothing was added, neither
	// First nor After is asked. When it is less, SQL is undone to a savepoint before a First is, and it starts over. An insert with an After
	// is then one statement, and needs no transaction, also where ExplicitTx is set.
	Counts bool

	// Timed says that an InsertAlike takes the database's time as :now, where a clock in the text of each row costs much. The core asks for the time
	// first, and leaves a few rows to Insert.
	Timed bool

	// One does to a single row, by its plain names, what the batch does. It returns nothing: its count says whether it touched the row. It is
	// for an engine on which a list, and returning rows, cost more.
	One string
}

// Terminated is a statement as a command-line client of the engine reads it: with its semicolon, or, for a block that ends in one by itself, with
// a slash on a line of its own.
func Terminated(text string) string {
	if strings.HasSuffix(text, ";") {
		return text + "\n/\n"
	}
	return text + ";\n"
}

// repeated is a slice of n values v.
func repeated(v any, n int) any {
	if v == nil {
		return make([]any, n)
	}
	x := reflect.ValueOf(v)
	out := reflect.MakeSlice(reflect.SliceOf(x.Type()), n, n)
	for i := range n {
		out.Index(i).Set(x)
	}
	return out.Interface()
}

// sliceOf is rows from to to of a column as a plain slice.
func sliceOf(col Column, from, to int) any {
	return reflect.ValueOf(col.Slice()).Slice(from, to).Interface()
}

// ListText fills the {where} of a text that lists tasks, and its {order}: by descending ids when newest is set.
func ListText(text, where string, newest bool) string {
	order := ""
	if newest {
		order = " DESC"
	}
	return strings.NewReplacer("{where}", where, "{order}", order).Replace(text)
}
