package sqlrun

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// Texts has all statements of a dialect: its own, and those that are the same on every engine. Values are named as in
// dialect.Statements.
type Texts struct {
	dialect.Statements
	WorkflowTexts
	AuditTexts
	StatisticsTexts

	// Movable locks the rows of an operator's event, and Move changes them. They are the dialect's texts with the guards
	// and assignments of the state table.
	Movable, Move map[state.Event]dialect.Batch

	// Version returns the newest migration as version, and as compatible the oldest version whose programs work with the
	// tables; a missing table is an error of class Missing. SetVersion adds :version, :title and :compatible unless that
	// version is there.
	Version, SetVersion string
	// Drop removes every table and view that the migrations make.
	Drop []string

	// Poisoned returns rows without their payload, given by :id.
	Poisoned dialect.Batch
	// Get returns the whole row of :id. FindReference returns the id of the task with :reference in :queue.
	Get, FindReference string
	// List returns at most :limit rows without their payload, by id, and ListArchive those of the archive. FindIDs returns
	// only ids. ListText fills in which; List alone can begin with the newest.
	List, FindIDs, ListArchive string
	// ListSome returns at most :limit rows as List does, and SomeIDs their ids, by an index of dialect.Statements.Indexes
	// that IndexText fills in. MatchSome returns a SomeRow of such rows, of which it counts those with {matches}.
	ListSome, SomeIDs, MatchSome string
	// Attempts returns at most :limit AttemptRows of the task :id from the history, in order. LastAttempt returns the
	// last attempt from the rows of the task :id, in the table and in the archive.
	Attempts, LastAttempt string

	// OldKeys returns the id of at most :limit unique keys that have expired, the oldest first.
	OldKeys string

	// Key/value records have a :namespace and a :name. GetKV returns one as a KVRow, and ListKV at most :limit of a
	// :namespace, ordered by name. EarliestKV returns those that expire, the earliest first. AddKV adds a record with
	// :value, unless it exists. The record's version is the clock. It expires :ttl from now, or never if :ttl is null.
	// If another client adds the same record at the same time, AddKV may fail with class Duplicate. SetKV gives a record
	// of :version a new :value and :ttl and the next version. DropKV removes a record, ExpireKV those of :namespace that
	// expired at least :age ago. LockKV locks a record until the transaction ends, by giving it the next version. The
	// number of affected rows reports whether something was changed. QueueKV returns the limits and the pause of the queue
	// :name, as far as it has them.
	GetKV, ListKV, EarliestKV, AddKV, SetKV, DropKV, ExpireKV, LockKV, QueueKV string

	// DropKeyRates removes the rows of :queue from the table key_rate, and CapKeyRates lowers their full_at to at most
	// :full_at.
	DropKeyRates, CapKeyRates string
}

// NewTexts returns the statements of a dialect for tables of some names.
func NewTexts(d dialect.Dialect, n dialect.Names) Texts {
	st, dual := withDefaults(d.Statements(n), n), ""
	if st.Dual != "" {
		dual = st.Dual + "\n "
	}
	st.Private = private(st.Private, n, unpausedAndUnlimited)
	st.Next = fillUnpaused(st.Next, n, unpaused)
	fill := n.Filler("{now}", st.Now, "{limit}", st.Limit, "{dual}", dual, "{payload}", st.Payload)
	t := func(text string) string { return fill(fillHole(text, "{columns}", st.Columns)) }
	const kvs = `SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM {kv}
 WHERE namespace `
	const kv = kvs + `= :namespace`
	const last = `SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM `
	out := Texts{
		Statements:      st,
		WorkflowTexts:   workflowTexts(st, t),
		AuditTexts:      auditTexts(st, t),
		StatisticsTexts: statisticsTexts(t),

		Version: t(`SELECT max(version) AS version, max(compatible) AS compatible
  FROM {migration}`),
		SetVersion: t(`INSERT INTO {migration} (version, title, compatible, applied)
SELECT :version, :title, :compatible, {now}
 {dual}WHERE NOT EXISTS (SELECT 1 FROM {migration} WHERE version = :version)`),
		Drop: drops(st, d.Migrations(n)),

		Poisoned: dialect.Batch{SQL: t(`SELECT {columns},
       {now} AS now
  FROM {task} t
 WHERE t.id IN ({rows})`), Row: ":id", Max: min(st.Settle.Max, 500)},
		Get: t(`SELECT {columns},
       {payload}, {now} AS now
  FROM {task} t
 WHERE t.id = :id`),
		FindReference: t(`SELECT id
  FROM {task}
 WHERE reference = :reference AND queue = :queue`),
		List: t(`SELECT {columns},
       {now} AS now
  FROM {task} t
 WHERE {where}
 ORDER BY t.id{order}
 {limit}`),
		FindIDs: t(`SELECT t.id
  FROM {task} t
 WHERE {where}
 ORDER BY t.id
 {limit}`),
		ListSome: t(`SELECT {columns},
       {now} AS now
  FROM {task} t{hint}
 WHERE {where}{order}
 {limit}`),
		SomeIDs: t(`SELECT id
  FROM {task} t{hint}
 WHERE {where}{order}
 {limit}`),
		MatchSome: t(`SELECT count(*) AS looked, count(CASE WHEN {matches} THEN 1 END) AS matching
  FROM (
    SELECT id, queue, kind, task_key, state, due, cancelled, updated, holder
      FROM {task} t{hint}
     WHERE {where}{order}
    {limit}) t`),
		ListArchive: t(`SELECT {columns},
       {now} AS now
  FROM {archive} t
 WHERE {where}
 ORDER BY t.id, t.fence
 {limit}`),
		Attempts: t(`SELECT task, fence, queue, attempt, outcome, taken, ended, worker, error
  FROM {attempt}
 WHERE task = :id
 ORDER BY fence
 {limit}`),
		LastAttempt: t(last + `{task} WHERE id = :id
UNION ALL
` + last + `{archive} WHERE id = :id`),

		OldKeys: t(`SELECT id
  FROM {unique_key}
 WHERE expires <= {now}
 ORDER BY expires
 {limit}`),

		GetKV: t(kv + ` AND name = :name`),
		ListKV: t(kv + `
 ORDER BY name
 {limit}`),
		EarliestKV: t(kv + `
   AND expires IS NOT NULL
 ORDER BY expires, name
 {limit}`),
		AddKV: t(`INSERT INTO {kv} (namespace, name, version, value, updated, expires)
SELECT :namespace, :name, {now}, :value, {now}, {now} + :ttl
 {dual}WHERE NOT EXISTS (SELECT 1 FROM {kv} WHERE namespace = :namespace AND name = :name)`),
		SetKV: t(`UPDATE {kv}
   SET version = version + 1,
       value = :value,
       updated = {now},
       expires = {now} + :ttl
 WHERE namespace = :namespace AND name = :name AND version = :version`),
		DropKV: t(`DELETE FROM {kv}
 WHERE namespace = :namespace AND name = :name`),
		ExpireKV: t(`DELETE FROM {kv}
 WHERE namespace = :namespace AND expires <= {now} - :age`),
	}
	out.LockKV = t(`UPDATE {kv}
   SET version = version + 1
 WHERE namespace = :namespace AND name = :name`)
	out.QueueKV = t(kvs + "IN ('" + NamespaceLimit + "', '" + NamespacePause + `')
   AND name = :name`)
	out.DropKeyRates = t(`DELETE FROM {key_rate}
 WHERE queue = :queue`)
	out.CapKeyRates = t(`UPDATE {key_rate}
   SET full_at = :full_at
 WHERE queue = :queue AND full_at > :full_at`)
	out.setMoves(t)
	return out
}

// CheckPrivate returns an error for a mistake in the dialect's private statements, before one of them is run.
func (t *Texts) CheckPrivate() error {
	for _, name := range slices.Sorted(maps.Keys(t.Private)) {
		b := t.Private[name]
		rows, mistake := strings.Count(b.SQL, "{rows}"), ""
		switch {
		case b.SQL == "":
			mistake = "no text"
		case b.Row == "" && rows > 0:
			mistake = "{rows}, but no Row"
		case b.Row != "" && rows != 1:
			mistake = "a Row, but not {rows} once"
		case b.Row != "" && b.Max < 1:
			mistake = "a Row, but no Max"
		default:
			if left := unfilled.FindString(strings.Replace(withoutComment(b.SQL)+b.Row, "{rows}", "", 1)); left != "" {
				mistake = left + ", which nothing fills in"
			}
		}
		if mistake != "" {
			return fmt.Errorf("dialect: the statement %q of Statements.Private has %s", name, mistake)
		}
	}
	return nil
}

// unfilled matches a name in braces.
var unfilled = regexp.MustCompile(`\{[A-Za-z_]+\}`)

// created matches the table or view that a statement of a migration creates.
var created = regexp.MustCompile(`CREATE (?:OR REPLACE )?(TABLE|VIEW) (?:IF NOT EXISTS )?([a-z0-9_.]+)`)

// drops returns the statements that remove the views and then the tables of the migrations, the newest first. The table
// of migrations comes last, so that an interrupted drop can be repeated.
func drops(st dialect.Statements, steps []dialect.Migration) []string {
	texts := map[string]string{
		"VIEW":  cmp.Or(st.DropView, "DROP VIEW IF EXISTS {name}"),
		"TABLE": cmp.Or(st.DropTable, "DROP TABLE IF EXISTS {name}"),
	}
	out := map[string][]string{}
	for _, m := range steps {
		for _, text := range m.Statements {
			if found := created.FindStringSubmatch(text); found != nil {
				kind := found[1]
				out[kind] = append(out[kind], strings.ReplaceAll(texts[kind], "{name}", found[2]))
			}
		}
	}
	slices.Reverse(out["TABLE"])
	return slices.Concat(out["VIEW"], out["TABLE"])
}

// ListText fills the {where} of a text that lists tasks, and its {order}: by descending ids when newest is set.
func ListText(text, where string, newest bool) string {
	order := ""
	if newest {
		order = " DESC"
	}
	return strings.NewReplacer("{where}", where, "{order}", order).Replace(text)
}

// IndexText fills the {where}, {order} and {hint} of a text that reads tasks of :queue by an index.
func IndexText(text string, by dialect.Index) string {
	order, hint := "", ""
	if by.Order != "" {
		order = " ORDER BY " + by.Order
	}
	if by.Hint != "" {
		hint = " " + by.Hint
	}
	return strings.NewReplacer("{where}", "queue = :queue AND "+by.Where, "{order}", order, "{hint}", hint).Replace(text)
}

// setMoves sets the statements of operators' events, one for each such row of the state table.
func (t *Texts) setMoves(fill func(string) string) {
	t.Move, t.Movable = map[state.Event]dialect.Batch{}, map[state.Event]dialect.Batch{}
	for _, row := range state.ByOperator() {
		move, movable := t.Statements.Move, t.Statements.Movable
		if row.To == state.None {
			move, movable = t.Statements.Purge, t.Statements.Purgeable
		}
		holes := map[string]string{"{set}": fill(assigned(row, t.Statements)), "{guard}": state.Guard(row, "due")}
		for hole, text := range holes {
			move.SQL, movable.SQL = fillHole(move.SQL, hole, text), fillHole(movable.SQL, hole, text)
		}
		t.Move[row.Event], t.Movable[row.Event] = move, movable
	}
}

// assigned returns the assignments of a transition, one column in a line.
func assigned(row state.Transition, st dialect.Statements) string {
	var set []string
	if row.Fence { // before the state is set: MySQL assigns in the order that is written
		set = append(set, grown(row))
	}
	due, cancelled := "due = NULL", "cancelled = 0"
	if row.Due == state.DueNow {
		due = "due = {now}"
	}
	if row.Cancels {
		cancelled = "cancelled = 1"
	}
	set = append(set, "state = "+state.Literals(row.To), due, cancelled)
	if row.Attempts == state.Reset {
		set = append(set, "attempt = 0", "lapses = 0")
	}
	if row.To == state.Completed {
		set = append(set, "progress = NULL")
	}
	set = append(set, "lease_until = NULL", "taken = NULL", "updated = {now}")
	return strings.NewReplacer(st.Assignments...).Replace(strings.Join(set, ",\n"))
}

// grown returns the assignment that increases the fence.
func grown(row state.Transition) string {
	from := row.FromStates()
	owned := slices.DeleteFunc(slices.Clone(from), func(s state.State) bool { return !row.GrowsFence(s) })
	if len(owned) == len(from) {
		return "fence = fence + 1"
	}
	return "fence = fence + CASE WHEN " + state.Condition(owned...) + " THEN 1 ELSE 0 END"
}

// fillHole replaces a hole of a text. All lines begin in the column of the hole.
func fillHole(text, hole, lines string) string {
	before, after, found := strings.Cut(text, hole)
	if !found {
		return text
	}
	column := len(before) - 1 - strings.LastIndex(before, "\n")
	return before + strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", column)) + after
}

// UnionText returns one query that runs the query text n times and adds to each row, as part, which time it is from.
// Each time has values of its own for the given names: those of :name are :name_0, :name_1 and so on. Rows are in no
// order.
//
// It copies the text, so each part has the plan that it has alone. An engine plans a join with a list of values in its
// own way, and not every engine has lateral joins.
func UnionText(text string, n int, names ...string) string {
	own := regexp.MustCompile(`(^|[^:]):(` + strings.Join(names, "|") + `)\b`)
	text = withoutComment(text)
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString("\nUNION ALL\n")
		}
		fmt.Fprintf(&b, "SELECT %d AS part, x.* FROM (%s) x", i, own.ReplaceAllString(text, fmt.Sprintf("${1}:${2}_%d", i)))
	}
	return b.String()
}

// PartName returns the name in UnionText that :name has in a part.
func PartName(name string, part int) string { return fmt.Sprintf("%s_%d", name, part) }
