package dialect

import (
	"strings"

	"github.com/dbq-go/dbq/state"
)

// Statements are the texts that the core runs: plain guarded SQL that a DBA can read. The core binds values by name,
// such as :queue. A statement may use a name several times or not at all. It cannot contain a question mark.
//
// States are literals (state.Literals), never bound values. :lease, :after, :delay and :age are microseconds. A
// statement returns nothing unless its comment lists columns, which are found by name.
//
// The core fills in {unpaused} in Next and in the statements of Private: the condition that :queue is not paused. In a
// checkout, it is false for a queue with limits, too, unless the core itself has locked these limits. Any other name in
// braces that is left in Private is an error when a client opens.
//
// A dialect must set the first fields, but for those that say when they may be empty. Most need some of Optional. A
// first version can leave Defaulted empty. The tags describe the fields to tests and tools: args are the values that a
// statement may bind, and columns those with a value for each row of a batch.
type Statements struct {
	Style PlaceholderStyle `part:"yes"`
	// Begin starts a write transaction at READ COMMITTED or the engine's equivalent. If it is empty, the driver begins
	// and ends transactions. If it has several texts, those before the last one apply to the next transaction, even to
	// that of a single statement.
	Begin []string `empty:"allowed"`
	// Now is an SQL expression: the database's clock in microseconds since 1970, one value for a whole statement.
	Now string
	// Limit bounds the rows of a SELECT, such as "LIMIT :limit".
	Limit string `args:"limit" part:"yes"`
	// ForUpdate follows a SELECT that locks its rows, such as "FOR UPDATE". Leave it empty if only one transaction at a
	// time writes.
	ForUpdate string `empty:"allowed" part:"yes"`
	// Returning reports that an UPDATE or DELETE can return the rows that it changed: RETURNING id. The defaults of
	// Remove, Start and Purge use it. Without it, a dialect needs a BatchRunner.
	Returning bool `empty:"allowed" part:"yes"`
	// Columns lists the columns of a task without the payload, for a SELECT from the table of tasks, named t. lease_until
	// and progress are the values that Extend stored last.
	Columns string `part:"yes"`
	// Payload lists the payload in the same way.
	Payload string `part:"yes"`
	// MigrationLock waits for other migrations of the tables with the prefix :name, in the schema of Names. It may be
	// empty if Begin waits for them. With a Free, it is taken before the transaction and released after it; otherwise it
	// is taken in the transaction, and ends with that.
	MigrationLock Lock `args:"name" empty:"allowed"`

	// Insert adds tasks and returns the id of each row that it added. It skips a row whose id or (reference, queue)
	// exists, and leaves the surrounding transaction usable. A task is due at :at or, if :at is null, :delay from now.
	//
	// The fence of a new row is 0. With :reused = 1 an earlier task may have had this id. The fence then starts at the
	// database's clock in microseconds, above every earlier fence. If the engine's clock is coarser and is the caller's
	// own, the fence starts at the later of it and :clock, the caller's clock.
	//
	// For an insert of several statements, :now is their common time, and rows that are due then have it as :at. For a
	// single statement it is null. :now and :clock are not columns.
	//
	// Columns: id, reused, reference, kind, task_key, priority, at, delay, max_attempts, headers, payload.
	Insert Batch `args:"queue clock now"`
	// AddKeys adds unique keys. It skips a key that exists, waits for a transaction that is adding it, and leaves the
	// surrounding transaction usable.
	AddKeys Batch `columns:"id scope name task expires" args:"queue"`
	// Settle ends attempts. It changes rows that are PROCESSING under :fence, and returns their id, fence and new state.
	// The row becomes due at :at, or :after from now; if both are null it is parked. :state ERROR with a due time becomes
	// POISON if attempt >= max_attempts. :uncount is subtracted from the attempts. A null :result keeps the old result if
	// :state is CREATED, and clears it otherwise. A COMPLETED task has no progress; any other keeps the latest. If
	// :callers_tx is 1, the statement runs in a caller's transaction. It may then keep an older progress, if reading the
	// latest would block a renewal.
	//
	// Settle and Remove wait at most :lock_wait milliseconds for a row that another transaction has locked, and then fail
	// with class Conflict. If :lock_wait is null, as in a caller's transaction, the session's limit applies. A dialect
	// whose statements cannot limit their wait sets a limit of about a second for the sessions that its Open makes, or
	// sets Server.LongLockWaits.
	Settle Batch `columns:"id fence state at after uncount result" args:"lock_wait callers_tx"`
	// Extend renews the leases of rows that are PROCESSING under :fence until :lease from now, and returns their id and
	// fence. It stores :progress unless that is null. No two rows have the same id. If a transaction can fail because
	// another one has changed a row since it began, or can wait for its lock, a renewal must neither write nor lock the
	// task's row: keep renewals in a table of their own, which a takeover reads.
	Extend Batch `columns:"id fence progress" args:"lease"`
	// Record adds attempts of the tasks :id to the history. It skips an attempt that exists.
	Record Batch `columns:"id fence attempt outcome taken ended worker error" args:"queue"`
	// RecordLast adds the last attempts of the rows :id, from the rows themselves. It skips rows that are PROCESSING,
	// rows without taken, and attempts that exist. The outcome is completed, failed or poisoned or, for a CREATED row,
	// released; a released attempt has the number after the row's. It lasted from taken to updated. The worker is the
	// holder without its last # and what follows. The error is :error or, if that is null, the result of an ERROR or
	// POISON row. It locks the rows if that costs no statement.
	RecordLast Batch `columns:"id error"`

	Defaulted
	Optional

	// Private holds, by name, the statements that only this dialect runs: those of its Checkout and of its BatchRunner.
	// They are here to be checked, printed and reviewed with the rest; Session.Private returns them. A plain text is a
	// Batch without Max.
	Private map[string]Batch
}

// Defaulted are statements that the core writes in plain SQL from the columns of Row if they are empty. A dialect
// supplies its own if its columns have other names, or if the engine needs a different form, such as one that uses an
// index.
type Defaulted struct {
	// FindKeys returns the keys of :id without locking them: id, task, expires, and the task's state and due, which are
	// null if it does not exist in the key's queue.
	FindKeys Batch `columns:"id"`
	// LockKeys locks the keys of :id in the order of ids, and returns id, task and expires as last committed.
	LockKeys Batch `columns:"id"`
	// SetKeys changes :task and :expires of keys that the transaction has locked.
	SetKeys Batch `columns:"id task expires"`
	// DropKeys removes keys that the transaction has locked.
	DropKeys Batch `columns:"id"`
	// LockWaiting locks the tasks of :id that have a due time and, if :running is 1, the PROCESSING ones, in the order of
	// ids. It returns id, queue, state, due and created as last committed.
	LockWaiting Batch `columns:"id" args:"running"`
	// Replace changes tasks that have a due time and that the transaction has locked. :at is the new due time; the
	// progress is cleared. It raises the fence, because a checkout that has chosen the task by its old key and size must
	// not lease it.
	Replace Batch `columns:"id kind task_key priority at headers payload"`
	// Postpone changes only the due time of such tasks.
	Postpone Batch `columns:"id at"`
	// AddWorkflowTasks adds the tasks of a workflow.
	AddWorkflowTasks Batch `columns:"id workflow_id name queue_name needs dependents at delay"`
	// AddWorkflowNeeds adds the dependencies of a workflow.
	AddWorkflowNeeds Batch `columns:"parent child on_failure"`
	// Remove deletes rows that are PROCESSING under :fence, and returns their id and fence.
	Remove Batch `columns:"id fence" args:"lock_wait"`
	// Start sets known_started to 1 in rows that are PROCESSING under :fence. It returns the id and fence of each, even if
	// it was set before.
	Start Batch `columns:"id fence"`
	// Movable, Move and Purge apply operators' events to rows given by :id, whatever their fence. The core makes one
	// statement of each for every event of the state table: it fills in {guard}, the condition on the rows, and {set},
	// the assignments.
	//
	// Movable locks the rows in the order of their ids. It returns their id, queue, task_key, state, attempt, fence,
	// holder, taken, updated and result as they are, the progress if the lease's renewal has it, and the database's clock
	// as now.
	Movable Batch `columns:"id"`
	// Move changes the rows.
	Move Batch `columns:"id"`
	// Purge removes the rows and, with Returning, returns their id, queue, task_key and state. Purgeable locks the rows
	// and returns the same. It runs first without Returning, or if the rows are archived or their attempts recorded.
	Purge     Batch `columns:"id" part:"yes"`
	Purgeable Batch `columns:"id" part:"yes"`
	// SetResult replaces the result of rows that the transaction has locked.
	SetResult Batch `columns:"id result"`
	// SetProgress replaces the progress of such rows.
	SetProgress Batch `columns:"id progress"`
	// Held returns the whole rows that are PROCESSING in :queue under :holder.
	Held string `args:"queue holder"`
	// IDBehind returns the id that is :offset tasks behind the first one above :after, if it is below :before. It reads
	// only the primary key.
	IDBehind string `args:"after before offset"`
	// IDBefore returns the id that is :offset tasks before the last one below :before. It reads only the primary key.
	IDBefore string `args:"before offset"`
	// Peek returns id, queue, state, fence and updated of the rows that exist.
	Peek Batch `columns:"id"`
	// Count counts all tasks by queue and state. It returns queue, state, tasks, parked (without a due time), due (whose
	// due time has come), oldest (how many microseconds the oldest of these has been due, or null), cancelled (marked as
	// cancelled) and cut (1 if it stopped at its limit; otherwise it can be omitted). Several rows of one queue and state
	// are added up.
	Count string
	// CountUpTo does the same for :queue, which it need not return. It counts at most :limit tasks of each state, at a
	// cost that does not grow with the table; oldest is exact. The cost of the default grows with the tasks of the queue.
	// The core runs up to 50 of it in one statement, each as a derived table, and up to 200 of NextQueue.
	CountUpTo string `args:"queue limit"`
	// NextQueue returns the first queue after :queue, by name, in which CountUpTo would find tasks.
	NextQueue string `args:"queue"`
	// Next returns one row: as due, the earliest due time or end of a lease in :queue, or null if there is none or the
	// queue is paused; as now, the database's clock. It must not lock, and its cost must not grow with the tasks, as that
	// of the default does.
	Next string `args:"queue"`
	// Busy counts the tasks of :queue that are PROCESSING, as tasks.
	Busy string `args:"queue"`
	// BusyKeys counts them for each key, and returns task_key, which is null for tasks without a key, and tasks.
	BusyKeys string `args:"queue"`
	// DueTasks returns up to :limit due tasks of :queue in the order of a checkout: id, fence, task_key, priority, was_due
	// and payload_size. Its cost must depend only on what it returns, and so must that of DueOfKeys, HeadsOfKeys and
	// DueKeys.
	DueTasks string `args:"queue limit"`
	// DueOfKeys returns the same columns, of up to :limit due tasks of each :task_key, the earliest due first.
	DueOfKeys Batch `columns:"task_key" args:"queue limit"`
	// HeadsOfKeys returns the same columns, of the first task of each :task_key, in the order of ids, that has a due time,
	// if it is due. With :block = 1 it leaves out a task if one with a lower id and the same key is in POISON, or in ERROR
	// without a due time, and is not cancelled.
	HeadsOfKeys Batch `columns:"task_key" args:"queue block"`
	// DueKeys returns the same columns and the database's clock as now, for the next :limit keys after :after that have
	// tasks of :queue with a due time. Of each key it returns the task that is due first, even if its time has not come.
	DueKeys string `args:"queue after limit"`
	// KeyRates returns task_key and full_at of the rows of :queue in the table key_rate whose key is a :name.
	KeyRates Batch `columns:"name" args:"queue"`
	// SetKeyRates adds rows for the keys :name of :queue to it, or changes those that exist. The transaction has locked
	// the limits of the queue.
	SetKeyRates Batch `columns:"name full_at" args:"queue"`
	// ExpireKeyRates removes at most :limit of its rows, of all queues, whose full_at was at least :age ago.
	ExpireKeyRates string `args:"age limit"`
	// ExpireAttempts removes at most :limit attempts of :queue that ended at least :age ago.
	ExpireAttempts string `args:"queue age limit"`
	// Archive copies the rows :id, which Purgeable has locked, into the archive: Purge follows in the same transaction. A
	// row of the archive with the same id and fence does not change.
	Archive Batch `columns:"id"`
	// AddStatistics adds rows to the table of statistics. A row that exists is an error of class Duplicate. :queue_name,
	// :began and :errors are the columns queue, since and error of the table; the other names are the same.
	//
	// Columns: queue_name, period, began, source, enqueued, started, completed, failed, poisoned, released, created,
	// processing, errors, poison, due, parked, oldest_due, latency, run_time.
	AddStatistics Batch
}

// Optional are statements and parts of statements that some engines need, and others do without.
type Optional struct {
	// Dual follows a SELECT that reads no table, such as "FROM dual".
	Dual string `part:"yes"`
	// NestedSavepoints reports that a second savepoint with the name of an earlier one does not replace it, so each has
	// to be released.
	NestedSavepoints bool `part:"yes"`
	// DropTable and DropView remove {name}, without an error if it does not exist. The defaults are DROP TABLE IF EXISTS
	// {name} and DROP VIEW IF EXISTS {name}.
	DropTable string `part:"yes"`
	DropView  string `part:"yes"`
	// LockFree locks those rows of :id that no other transaction has locked, and returns their ids. Leave it empty if a
	// transaction does not lock single rows.
	LockFree Batch `columns:"id"`
	// DropLeases removes the renewals of leases that have ended. ExpireLeases removes at most :limit renewals that ended
	// at least :age ago. Leave both empty if Extend writes the task's row.
	DropLeases   Batch  `columns:"id fence"`
	ExpireLeases string `args:"age limit"`
	// Assignments replaces some of {set}, in pairs of old and new, for columns that keep null as another value. The core
	// writes "due = NULL", "due = {now}", "lease_until = NULL" and "taken = NULL".
	Assignments []string `part:"yes"`
	// Exhausted returns the whole rows of :queue that the checkout under :holder moved to POISON, with their previous
	// holders; their results name both. Leave it empty if no index leads to such rows: a checkout whose answer is lost
	// then does not report them.
	Exhausted string `args:"queue holder"`
	// Indexes describes, for each state, how an index finds the tasks of a queue. Lists and counts of a state without an
	// index read a bounded number of tasks by their ids.
	Indexes map[state.State]Index
	// CountNewest counts among the newest :limit tasks of all queues, for the states that CountUpTo cannot count: those
	// whose Index has Newest. Leave it empty if there are none.
	CountNewest string `args:"limit"`
	// LimitIdle makes the server end the session if the client is silent for ten seconds before the end of the
	// transaction. It is for transactions that lock a queue's limits. Free restores the setting of the session, if Take
	// changes that and not only the transaction's.
	LimitIdle Lock
	// BoundWaits makes a statement of the transaction that waits for a lock for a second fail with class Conflict. The
	// core's own transactions begin with it, unless they have long statements, as migrations do.
	BoundWaits string
	// Notify sends :payload to the listeners of :channel, immediately or when its transaction commits; see Listener.
	Notify string `args:"channel payload"`
}

// An Index finds the tasks of a queue in one state. The cost of reading them up to a limit must depend only on the
// limit.
type Index struct {
	// Where is a condition beside queue = :queue. Tasks in other states may fulfill it, too. It is empty if no index leads
	// to the tasks.
	Where string
	// Order is the order of the index, as in an ORDER BY. It may be empty if lists need no order to read by the index.
	Order string
	// IDs reports which parts of the index are in the order of ids. Lists have this order, so they read only a part of
	// such an index. With another one, they sort all tasks of the queue in the state.
	IDs IDOrder
	// Hint follows the table's name, to force the index if the server could choose another one.
	Hint string
	// Filter is a redundant condition. The core adds it to filters for this state alone, so that the server can use the
	// index.
	Filter string
	// Newest reports that CountNewest counts the tasks in this state, and CountUpTo does not.
	Newest bool
}

// IDOrder reports which parts of an index are in the order of ids.
type IDOrder int

const (
	// IDsUnordered is for an index in another order.
	IDsUnordered IDOrder = iota
	// IDsOrderedByPriority is for an index in which the tasks of each priority that Where selects are in the order of ids.
	IDsOrderedByPriority
	// IDsOrdered is for an index in which all tasks that Where selects are in the order of ids.
	IDsOrdered
)

// ReadNow returns the statement that reads the database's clock, as now.
func (st *Statements) ReadNow() string {
	return strings.TrimSpace("SELECT " + st.Now + " AS now " + st.Dual)
}
