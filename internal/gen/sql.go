package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/oracle"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/state"
)

// engines are the dialects whose SQL is printed.
var engines = []dialect.Dialect{sqlite.Dialect{}, postgres.Dialect{}, mysql.Dialect{}, oracle.Dialect{}}

// comments say what each statement is for, by its name: the field of dialect.Statements, or the field and the key. Operators'
// events have the state table's sentence instead.
var comments = map[string]string{
	"Begin":          "Begins a write transaction.",
	"Now":            "An expression, not a statement: the database's clock in microseconds since 1970.",
	"Dual":           "What stands behind a SELECT that reads no table.",
	"Version":        "Reads the newest migration that has been applied.",
	"SetVersion":     "Notes a migration as applied.",
	"MigrationLock":  "Waits for other migrations of the same tables.",
	"MigrationTable": "Makes the table of applied migrations.",
	"Drop":           "Removes everything, for tests and for leaving.",
	"Insert":         "Adds tasks. What is there already, by id or by reference and queue, is left out and is no error.",
	"InsertAlike":    "Adds new tasks without a reference that share all but their ids and payloads.",
	"Settle":         "Ends attempts (complete, fail, poison, release), if their fences are still valid.",
	"Complete":       "Ends attempts that completed without a result, if their common fence is still valid.",
	"Remove":         "Ends attempts and removes the tasks (complete and delete), if their fences are still valid.",
	"RemoveAlike":    "Ends attempts and removes the tasks, if their common fence is still valid.",
	"Unlocked":       "Locks the tasks of a batch that no other transaction has locked: these alone are settled then.",
	"Extend":         "Renews leases. On servers a renewal is a row of its own, so that a heartbeat writes and locks no task.",
	"Start":          "Marks attempts as started, where a lease that runs out must count as an attempt.",
	"DropLeases":     "Removes the renewals of leases that were settled.",
	"ExpireLeases":   "Removes renewals that ended long ago, a few at a time.",
	"SetResult":      "Stores what an operator said, after Move in the same transaction.",
	"Get":            "Reads one task.",
	"Held":           "Reads what one checkout holds, when its connection died before it had the answer.",
	"Exhausted":      "Reads what one checkout moved to POISON, when its connection died before it had the answer.",
	"List":           "Lists tasks without their payloads. {where} is made of comparisons of plain columns, {order} is empty or DESC.",
	"FindIDs":        "Finds the tasks that an operator's bulk call changes.",
	"IDBehind":       "Finds where the next part of the old tasks ends, for cleaning.",
	"InState":        "A condition, not a statement: what a filter for just this state adds, so that its tasks are found by an index.",
	"Peek":           "Reads where tasks are, to find out whether a call whose connection died had happened.",
	"FindReference":  "Finds a task by its reference.",
	"Count":          "Counts the tasks of each queue by state, all of them.",
	"CountUpTo":      "Counts the tasks of a queue by state, up to a limit of each.",
	"CountNewest":    "Counts the newest tasks that have ended, which are in no index by their queue.",
	"NextQueue":      "Finds the next queue by name.",
	"Next":           "Tells when the next task of a queue is due: what an idle worker asks.",
	"Notify":         "Wakes workers of other processes, outside of the transaction that enqueued.",

	"Note":           "Reads a note: a small fact that all who work on these tables share, such as that a queue is paused.",
	"Notes":          "Reads the notes of a kind.",
	"AddNote":        "Adds a note where there is none.",
	"SetNote":        "Changes a note, if nobody else has since it was read.",
	"DropNote":       "Removes a note.",
	"ExpireNotes":    "Removes notes whose time is over.",
	"Record":         "Adds attempts to the history.",
	"RecordAlike":    "Adds attempts to the history that ended alike, without an error, and are most likely new.",
	"Attempts":       "Reads the attempts of a task.",
	"ExpireAttempts": "Removes old attempts, a few at a time.",
	"Archive":        "Copies ended tasks into the archive, just before they are removed in the same transaction.",
	"ListArchive":    "Lists tasks of the archive.",

	"Checkout any":                   "Tells whether there is anything to take, without the writer's lock.",
	"Checkout update":                "Strategy update: leases due tasks of one priority, which a sub-select chooses. It may wait for another checkout.",
	"Checkout taken":                 "Reads what this checkout has leased, by its mark.",
	"Checkout ready":                 "Finds due tasks: one ordered search for each priority. On a server it leases them as well.",
	"Checkout ready within":          "Is ready for a queue whose payloads are not known to be small: it leases those that fit.",
	"Checkout ready sizes":           "Is ready for a queue whose payloads are not known to be small: it locks tasks and leaves the payloads out.",
	"CheckoutBatch payloads":         "Reads the large payloads of the tasks that fit.",
	"Checkout take":                  "Leases the tasks that were found.",
	"Checkout expired":               "Takes over tasks whose lease ran out; those whose attempts are spent become POISON.",
	"Checkout queue lock":            "Strategy advisory: waits for the queue's lock, in a statement of its own.",
	"Checkout see ready":             "Strategy cas: reads candidates without locks.",
	"Checkout see expired":           "Strategy cas: reads candidates to take over, without locks.",
	"Checkout dead":                  "Tells whether the table has many dead rows, which a search that took long had to pass.",
	"Checkout now":                   "Reads the database's clock, when a slow search for due tasks found none: the next ones begin a little before it.",
	"Checkout oldest":                "Tells when the oldest task in work was taken: leases that ran out are looked for from there on.",
	"Checkout due":                   "Tells which priorities have a due task, without locks. It is what an idle poll asks.",
	"Checkout turn":                  "Strategy skip-locked: a large checkout waits for others of its queue, a second at most.",
	"Checkout turn over":             "Strategy skip-locked: lets the next one begin, before the commit.",
	"Checkout queue free":            "Strategy advisory: gives the queue's lock back, after the commit.",
	"CheckoutBatch take":             "Leases the tasks that were found.",
	"CheckoutBatch take over":        "Takes over tasks whose lease ran out; on SQLite those whose attempts are spent become POISON.",
	"CheckoutBatch win":              "Keeps renewals off the tasks that are being taken over, and finds those that were renewed just now.",
	"CheckoutBatch bury":             "Takes tasks whose attempts are spent to POISON, after their last lease ran out.",
	"CheckoutBatch lock ready":       "Strategy cas: locks those candidates whose fence is still the same and that nobody has locked.",
	"CheckoutBatch lock expired":     "Locks those whose lease ran out, whose fence is still the same, and that nobody has locked.",
	"CheckoutBatch skip ready":       "Strategy cas: locks those candidates whose fence is still the same and that nobody has locked.",
	"CheckoutBatch skip expired":     "Locks those whose lease ran out, whose fence is still the same, and that nobody has locked.",
	"CheckoutBatch try lock ready":   "On TiDB, which has no SKIP LOCKED: the same, one by one, if a list of them fails.",
	"CheckoutBatch try lock expired": "On TiDB, which has no SKIP LOCKED: the same, one by one, if a list of them fails.",
	"MigrationUnlock":                "Lets them go on.",
	"CheckoutBatch take ready":       "Strategy cas: leases those candidates whose fence is still the same.",
	"CheckoutBatch take expired": "Strategy cas: takes over those candidates whose fence is still the same; " +
		"those whose attempts are spent become POISON.",
}

const sqlIntro = `-- Every statement that dbq sends to this engine, for who wants to review them.
-- Generated from the dialect by "go generate ./..."; do not edit.
--
-- A :name stands for a value, %s. %s
-- Times are microseconds since 1970 in UTC. States are %s.
-- Tables begin with "dbq_" unless a program says otherwise.

-- ======== The schema ========

`

// sqlPage is what a DBA reads about an engine: its migrations, and its statements by name.
func sqlPage(d dialect.Dialect) (string, error) {
	schema, err := dbq.MigrationSQL(d)
	if err != nil {
		return "", err
	}
	st := d.Statements(dialect.Names{Prefix: "dbq_"})
	sent := "which is sent apart from the text and never written into it"
	if _, inlines := d.(dialect.Inliner); inlines {
		sent = "which the driver writes into the text, escaped; an id is written as x'...'"
	}
	batches := "In a statement that takes many rows, it is an array."
	switch {
	case st.Extend.Repeat:
		batches = "Rows come as a list of values, or as arrays, with which a statement is run once for each row."
	case st.Insert.Row != "":
		batches = "Rows come as a list of values."
	}
	p := printer{engine: d.Name()}
	var states []string
	for _, s := range state.All() {
		states = append(states, fmt.Sprintf("%s %v", state.Literals(s), s))
	}
	fmt.Fprintf(&p.b, sqlIntro, sent, batches, strings.Join(states, ", "))
	p.b.WriteString(schema + "\n-- ======== The statements ========\n")
	p.statements(st)
	return p.b.String(), p.err
}

// printer writes statements under their names.
type printer struct {
	engine string
	b      strings.Builder
	err    error
}

// statements writes every field, so that none can be forgotten.
func (p *printer) statements(st dialect.Statements) {
	v := reflect.ValueOf(st)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i).Interface().(type) {
		case dialect.PlaceholderStyle, []state.State:
		case string:
			if f != "" {
				p.text(name, comments[name], f)
			}
		case []string:
			if len(f) > 0 {
				p.text(name, comments[name], f...)
			}
		case dialect.Batch:
			if f.SQL != "" || !st.MayBeEmpty(name) {
				p.batch(name, comments[name], f)
			}
		case map[state.Event]dialect.Batch:
			for _, t := range state.ByOperator() {
				p.batch(name+" "+string(t.Event), t.Doc, f[t.Event])
			}
		case map[state.State]string:
			for _, in := range slices.Sorted(maps.Keys(f)) {
				p.text(name+" "+in.String(), comments[name], f[in])
			}
		case map[string]string:
			for _, key := range slices.Sorted(maps.Keys(f)) {
				p.text(name+" "+key, comments[name+" "+key], f[key])
			}
		case map[string]dialect.Batch:
			for _, key := range slices.Sorted(maps.Keys(f)) {
				p.batch(name+" "+key, comments[name+" "+key], f[key])
			}
		default:
			p.err = fmt.Errorf("the field %s of Statements is a %T, which gen cannot print", name, f)
		}
	}
}

func (p *printer) text(name, comment string, texts ...string) {
	if comment == "" {
		p.err = fmt.Errorf("%s: say in internal/gen/sql.go what %q is for", p.engine, name)
	}
	fmt.Fprintf(&p.b, "\n-- %s. %s\n", name, comment)
	for _, text := range texts {
		p.b.WriteString(dialect.Terminated(text))
	}
}

func (p *printer) batch(name, comment string, b dialect.Batch) {
	if b.SQL == "" {
		p.err = fmt.Errorf("%s: %q has no text", p.engine, name)
	}
	how := fmt.Sprintf("\n-- At most %d rows.", b.Max)
	if b.Row != "" {
		how += fmt.Sprintf(" {rows} is a list, with %q in between, of %s", b.Sep, b.Row)
	}
	if b.Row == "" && b.ReadRow != "" {
		how += " Their values are arrays."
	}
	if b.Counts {
		how += "\n-- What is asked beside the change is asked only when it touched fewer. It is undone to a savepoint then, if it is to be asked before."
	}
	if b.ReadRow != "" {
		how += fmt.Sprintf("\n-- In what reads before or after the change it is a list of %s", b.ReadRow)
	}
	var texts []string
	if b.One != "" {
		how += "\n-- The second one is for a single row."
	}
	for _, text := range []string{b.First, b.SQL, b.One, b.After} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	p.text(name, comment+how, texts...)
}
