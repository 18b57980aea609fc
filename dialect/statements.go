package dialect

import (
	"github.com/dbq-go/dbq/state"
)

// Statements are the texts that the core runs, plain guarded SQL that a DBA can read. Values are named as :name and
// bound by the core; a name may be used several times or not at all. A literal must not hold a colon or a question
// mark.
//
// States are written as literals (state.Literals), never bound. :lease, :after, :delay and :age are microseconds.
// Where a comment names columns that a statement returns, they are found by name.
//
// A field whose comment says that it may be empty need not be filled. Neither must Held, IDBehind, NextQueue, Count,
// Peek, ExpireAttempts, Archive and SetResult: the core writes them in plain SQL, by the columns of Row. A dialect
// has its own where its columns have other names or the engine needs other words to find rows by an index.
type Statements struct {
	Style PlaceholderStyle
	// Begin starts a write transaction at READ COMMITTED or the engine's equal. Empty leaves beginning and ending to the
	// driver, for one that commits each statement by itself until it is told of a transaction.
	Begin []string
	Now   string // an SQL expression: the database's clock in microseconds since 1970, one value for a whole statement
	Dual  string // what the engine wants behind a SELECT that reads no table, such as "FROM dual"; empty for most

	// Limit bounds the rows of a SELECT: "LIMIT :limit", say. Columns are a task's columns but the payload, and Payload is
	// that, as a SELECT FROM the table of tasks, named t, lists them.
	Limit, Columns, Payload string

	// MigrationLock is run before a migration and waits for others of the tables whose prefix is :name, in the schema of
	// Names; it may be empty where Begin does that. With a MigrationUnlock it is taken before the transaction and freed
	// after it, else it is the transaction's.
	MigrationLock, MigrationUnlock string
	// DropTable and DropView remove {name}, without an error when it does not exist. Empty means DROP TABLE IF EXISTS
	// {name} and DROP VIEW IF EXISTS {name}.
	DropTable, DropView string

	// Insert adds tasks: :id :reused :queue :reference :kind :priority :at :delay :max_attempts :headers :payload
	// :payload_size, due at :at, or :delay from now when :at is null. The size is null for no payload. It returns the id
	// of each row really added. A row whose id or (reference, queue) exists is left out, and the surrounding transaction
	// stays usable.
	//
	// The fence of a new row begins at 0. With :reused, 1 instead of 0, a row may have had this id before, and its fence
	// begins where that one's never was: at the database's clock in microseconds. An engine whose clock is coarser, on the
	// caller's own machine, takes the later one of it and :clock, the caller's, which is no column.
	//
	// An insert of several statements has one time for all: :now is that, no column, and null for a single statement.
	// Rows that are due at it have it as :at.
	Insert Batch
	// Settle ends attempts: :id :fence :state :at :after :uncount :result :result_size. It takes rows that are PROCESSING
	// under this fence, and returns their id, fence and new state. The row is due at :at, or :after from now, or parked
	// when both are null. State ERROR with a due time becomes POISON when attempt >= max_attempts. :uncount is taken off
	// the attempts. A null :result leaves the old result when :state is CREATED, and clears it otherwise.
	//
	// Settle and Remove wait for a row that another transaction has locked no longer than :lock_wait, in milliseconds, and
	// are an error of class Conflict then, if the statement can bound its own wait; null, as in a caller's transaction,
	// leaves the session's bound. A dialect that cannot do that sets a bound of about a second for the sessions that its
	// Open makes, or sets Server.LongLockWaits.
	Settle Batch
	// Unlocked locks those rows of :id that no other transaction has locked, passes the others by, and returns their
	// ids. It is empty where a transaction does not lock single rows.
	Unlocked Batch
	// Remove deletes PROCESSING rows under a fence: :id :fence. It returns their id and fence.
	Remove Batch
	// Extend renews leases to end at now plus :lease, of PROCESSING rows: :id :fence. It returns their id and fence. Where
	// a transaction may fail because another has changed a row since it began, or wait for its lock, a renewal must
	// neither write the task's row nor lock it: keep renewals in a table of their own, where a takeover finds them. No two
	// rows have the same id.
	Extend Batch
	// Start sets known_started to 1 in PROCESSING rows under a fence: :id :fence. It returns their id and fence. Doing
	// it twice is doing it once.
	Start Batch
	// DropLeases removes renewals of leases that have ended: :id :fence. It returns nothing. ExpireLeases removes at most
	// :limit that ended at least :age ago. Both are empty where Extend writes the task's row.
	DropLeases   Batch
	ExpireLeases string
	// Movable, Move and Purge do what an operator orders to rows given by :id, whatever their fence. The core makes a
	// statement of each for every event of the state table: it fills in {guard}, the condition on the rows that the event
	// moves, and {set}, what it assigns to them. Movable locks the rows, in the order of their ids, and returns their id,
	// queue, state, attempt, fence, holder, taken, updated and result as they are, and the database's clock as now. Move
	// changes them. Purge removes rows, and returns the id of each; where it cannot, Purgeable locks them and returns
	// their ids before.
	Movable, Move, Purge, Purgeable Batch
	// NotDue, DueNow and NoLease are what {set} assigns to a task that is not to be handed out, to one that is due at
	// once, and to one without a lease whose row does not say how its last attempt ended. They are "due = NULL",
	// "due = {now}" and "lease_until = NULL, taken = NULL" where they are empty.
	NotDue, DueNow, NoLease string
	// SetResult replaces the result of rows that the same transaction has changed, and so locked: :id :result
	// :result_size. It returns nothing.
	SetResult Batch

	// Held returns the whole rows that are PROCESSING in :queue under :holder.
	Held string
	// Exhausted returns the whole rows of :queue that the checkout under :holder moved to POISON, each with who held
	// it. Their result names both. It is empty where no index leads to such tasks; then a checkout whose answer is lost
	// does not report them.
	Exhausted string
	// IDBehind returns the id that is :offset tasks behind the first one above :after, unless it is not below :before.
	// It reads the primary key only.
	IDBehind string
	// InState is what else is true of each row in a state, in words that let the engine find these rows by an index;
	// the core adds it to a filter for just that state. It may be empty.
	InState map[state.State]string
	// Peek returns id, queue, state, fence and updated of the rows that exist: :id.
	Peek Batch
	// Count counts all tasks by queue and state. It returns queue, state, tasks, parked (of these, without a due time),
	// due (those whose due time has come), oldest (for how many microseconds the oldest of them has been due, or null)
	// and cut (1 when it stopped at its limit; it need not return it otherwise). CountUpTo does so for :queue, which it
	// need not name, and counts up to :limit tasks of each state by indexes, or what else does not grow with the table;
	// its oldest is exact. NextQueue returns the first queue after :queue by name that CountUpTo would find tasks of.
	// States that it cannot count so are counted by CountNewest among the newest :limit tasks of all queues, and named
	// in Newest; both are empty where there is none.
	Count, CountUpTo, CountNewest, NextQueue string
	Newest                                   []state.State
	// Next returns one row: as due when the next task of :queue may be taken, the earliest due time or end of a lease,
	// null when there is none or the queue is paused, and the database's clock as now. It must not lock, and cost no more
	// for many tasks than for few.
	Next string
	// Notify tells all who listen on :channel that :payload, at once when it is no part of a transaction; see Listener. It
	// may be empty.
	Notify string

	// Record adds attempts to the history: :id (the task's) :fence :queue :attempt :outcome :taken :ended :worker
	// :error. One that is there is left out. It returns nothing. ExpireAttempts removes at most :limit of :queue that
	// ended at least :age ago.
	//
	// RecordLast adds the last attempts of rows given by :id, from the rows themselves: :id :error :error_size. It leaves
	// out what is PROCESSING, rows whose taken is not set, and an attempt that is there. The outcome is completed, failed,
	// poisoned or, of a row that is CREATED, released, whose attempt has the number after the row's. It ran from taken to
	// updated. The worker is the holder without its last # and what follows. The error is :error, or where that is null
	// the result of a row that is ERROR or POISON. It returns nothing, and locks the rows where that costs no statement.
	Record, RecordLast Batch
	ExpireAttempts     string
	// Archive copies rows given by :id into the archive, if Purge would remove them, and locks them: Purge follows in the
	// same transaction. A row that is in the archive already stays as it is. It returns nothing. Where there is a
	// Purgeable, that has locked them before.
	Archive Batch

	// Checkout holds what the dialect's own Checkout runs, by name, so that it is printed and golden-filed with the rest.
	Checkout map[string]string
	// CheckoutBatch is the same for statements of checkout that take several rows, and Batches for those of a
	// BatchRunner.
	CheckoutBatch, Batches map[string]Batch
}
