package oracle

import (
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// utc is one value for a whole SQL statement, whatever the session's time zone. In PL/SQL each mention would be read anew, so blocks SELECT it once.
const utc = "SYS_EXTRACT_UTC(SYSTIMESTAMP)"

// now is in microseconds since 1970, whose first day is the Julian day 2440588: whole days, and the seconds and microseconds of today.
const now = "((TO_NUMBER(TO_CHAR(" + utc + ", 'J')) - 2440588) * 86400000000 + TO_NUMBER(TO_CHAR(" + utc + ", 'SSSSSFF6')))"

// columns are a row without its payload.
const columns = "t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, " +
	"t.holder, t.created, t.updated, t.headers, t.result, t.result_size"

const (
	maxRows  = 500 // in a list of ids or of pairs, and in a batch; Oracle takes 1000 in a list
	maxTasks = 100 // in one block of inserts, with a dozen values each
)

func text(n dialect.Names, s string) string {
	return strings.NewReplacer("{task}", n.Table("task"), "{migration}", n.Table("migration"), "{tasks}", n.Table("tasks"),
		"{note}", n.Table("note"), "{attempt}", n.Table("attempt"), "{attempts}", n.Table("attempts"), "{archive}", n.Table("archive"),
		"{lease}", n.Table("lease"), "{owned_by}", ownedBy(n), "{now}", now, "{columns}", columns, "{owner}", n.Table(""), "{prefix}", n.Prefix).Replace(s)
}

// ownedBy is the schema of the tables, in the case in which Oracle keeps it, as an expression.
func ownedBy(n dialect.Names) string {
	if n.Schema != "" {
		return "'" + strings.ToUpper(n.Schema) + "'"
	}
	return "SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')"
}

// Statements are Oracle's texts. A list of rows goes by ids or by pairs of id and fence; an update or a delete goes as a batch that the driver binds as
// arrays, one statement for each row by its primary key. What an update changed cannot be returned of a batch, so its rows are
// locked and read first. Tasks are inserted by a block, each on its own, since only PL/SQL can leave out a row whose key is taken, wait for another
// transaction that is about to take it, and keep the surrounding transaction usable.
//
// A value is bound where its type is plain from the column beside it, and no text of a literal is compared with a number or the other way round.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	t := func(s string) string { return text(n, s) }
	const (
		byKey  = ` WHERE id = :id AND fence = :fence AND state = 1`
		spent  = `:state = 3 AND attempt >= max_attempts`
		keeps  = `:state = 0 AND :result_size IS NULL`
		pairs  = `SELECT /*+ INDEX(t {prefix}task_pk) */ t.id, t.fence, t.state FROM {task} t WHERE (t.id, t.fence) IN ({rows})`
		locked = pairs + ` AND t.state = 1 ORDER BY t.id FOR UPDATE`
	)
	// change locks and reads the rows, then writes them by primary key.
	change := func(then string) dialect.Batch {
		return dialect.Batch{First: t(locked), SQL: t(then), ReadRow: `(:id, :fence)`, Sep: ", ", Max: maxRows, Repeat: true}
	}
	settle := change(`UPDATE {task} SET
  due = CASE WHEN ` + spent + ` THEN NULL ELSE COALESCE(:at, {now} + :after) END,
  state = CASE WHEN ` + spent + ` AND COALESCE(:at, :after) IS NOT NULL THEN 4 ELSE :state END,
  attempt = attempt - :uncount, lease_until = NULL, updated = {now},
  result_size = CASE WHEN ` + keeps + ` THEN result_size ELSE :result_size END,
  result = CASE WHEN ` + keeps + ` THEN result ELSE :result END` + byKey)
	settle.After = t(pairs)
	st := dialect.Statements{
		Style: dialect.Colon,
		Now:   now,
		Dual:  "FROM dual",

		Version: t(`SELECT MAX(version) AS version, MAX(compatible) AS compatible FROM {migration}`),
		SetVersion: t(`BEGIN INSERT INTO {migration} (version, title, compatible, applied) VALUES (:version, :title, :compatible, {now});
EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
END;`),
		MigrationTable: []string{unless(exists, t(`CREATE TABLE {migration} (
  version NUMBER(10) NOT NULL, title VARCHAR2(200 CHAR) NOT NULL, compatible NUMBER(10) NOT NULL, applied NUMBER(19) NOT NULL,
  CONSTRAINT {prefix}migr_pk PRIMARY KEY (version))`))},
		MigrationLock:   t(migrationLock),
		MigrationUnlock: t(migrationUnlock),
		Drop: []string{unless(gone, t(`DROP VIEW {tasks}`)), unless(gone, t(`DROP VIEW {attempts}`)), unless(gone, t(`DROP TABLE {task} PURGE`)),
			unless(gone, t(`DROP TABLE {lease} PURGE`)),
			unless(gone, t(`DROP TABLE {note} PURGE`)), unless(gone, t(`DROP TABLE {attempt} PURGE`)), unless(gone, t(`DROP TABLE {archive} PURGE`)),
			unless(gone, t(`DROP TABLE {migration} PURGE`))},

		Insert: dialect.Batch{
			SQL: t(`DECLARE
  l_now NUMBER(19);
BEGIN
  SELECT {now} INTO l_now FROM dual;
  {rows}
END;`),
			Row: t(`BEGIN
    INSERT INTO {task} (id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload_size, payload)
    VALUES (:id, :reused * l_now, :queue, :reference, :kind, 0, :priority, :max_attempts, COALESCE(:at, l_now + :delay), l_now, l_now, :headers,
            :payload_size, :payload);
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;`),
			// Both lists have one separator, which is none between statements.
			After: t(`SELECT id FROM {task} WHERE 1 = 0 {rows}`), ReadRow: `OR id = :id`, Sep: "\n  ", Max: maxTasks,
			// Each text and each list of bound types is a cursor of its own in the shared pool. SQL Tuning Guide, "Cursor Sharing": bind variables
			// of other types or maximum lengths prevent it.
			Sizes: []int{100, 50, 20, 10, 5, 2, 1}, Apart: "payload", Long: inlineBytes,
		},
		Settle: settle,
		Remove: change(`DELETE FROM {task}` + byKey),
		Unlocked: dialect.Batch{SQL: t(`SELECT /*+ INDEX(t {prefix}task_pk) */ t.id FROM {task} t
 WHERE t.id IN ({rows}) FOR UPDATE SKIP LOCKED`),
			Row: `:id`, Sep: ", ", Max: maxRows},
		Start:     change(`UPDATE {task} SET started = 1` + byKey),
		Move:      moves(t),
		SetResult: dialect.Batch{SQL: t(`UPDATE {task} SET result = :result, result_size = :result_size WHERE id = :id`), Max: maxRows, Repeat: true},

		Get: t(`SELECT ` + shown + `, t.payload, t.payload_size, {now} AS now FROM {task} t WHERE t.id = :id`),
		Held: t(`SELECT ` + shown + `, t.payload, t.payload_size, {now} AS now FROM {task} t
 WHERE t.busy_queue = :queue AND t.holder = :holder`),
		List:    t(`SELECT ` + shown + `, {now} AS now FROM {task} t WHERE {where} ORDER BY t.id{order} FETCH FIRST :limit ROWS ONLY`),
		FindIDs: t(`SELECT t.id FROM {task} t WHERE {where} ORDER BY t.id FETCH FIRST :limit ROWS ONLY`),
		IDBehind: t(`SELECT t.id FROM {task} t WHERE t.id > :after AND t.id < :before
 ORDER BY t.id OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY`),
		Peek: dialect.Batch{SQL: t(`SELECT t.id, t.queue, t.state, t.fence, t.updated FROM {task} t WHERE t.id IN ({rows})`),
			Row: `:id`, Sep: ", ", Max: maxRows},
		FindReference: t(`SELECT id FROM {task} WHERE reference = :reference AND queue = :queue`),
		CountUpTo: t(`SELECT 0 AS state, 0 AS tasks, {now} - MIN(due) AS oldest, COUNT(*) AS due, 0 AS cut FROM (` + eachPriority(
			`SELECT due FROM (SELECT due FROM {task} WHERE ready_queue = :queue AND ready_priority = {p} AND due <= {now}
 ORDER BY due FETCH FIRST :limit ROWS ONLY)`) + `)
UNION ALL SELECT 0, COUNT(CASE WHEN state = 0 THEN 1 END), NULL, 0, CASE WHEN COUNT(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT state FROM {task} WHERE ready_queue = :queue FETCH FIRST :limit ROWS ONLY)
UNION ALL SELECT 3, COUNT(CASE WHEN state = 3 THEN 1 END), NULL, 0, CASE WHEN COUNT(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT state FROM {task} WHERE ready_queue = :queue FETCH FIRST :limit ROWS ONLY)
UNION ALL SELECT 1, COUNT(*), NULL, 0, CASE WHEN COUNT(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT state FROM {task} WHERE busy_queue = :queue FETCH FIRST :limit ROWS ONLY)`),
		CountNewest: t(`SELECT queue, state, COUNT(*) AS tasks, COUNT(CASE WHEN state = 3 THEN 1 END) AS parked,
  CASE WHEN (SELECT COUNT(*) FROM (SELECT id FROM {task} FETCH FIRST :limit ROWS ONLY)) >= :limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT queue, state, due FROM {task} ORDER BY id DESC FETCH FIRST :limit ROWS ONLY)
 WHERE due IS NULL AND state <> 1 GROUP BY queue, state`),
		Newest: []state.State{state.Completed, state.Error, state.Poison},
		NextQueue: t(`SELECT queue FROM (
  SELECT MIN(ready_queue) AS queue FROM {task} WHERE ready_queue > :queue UNION ALL SELECT MIN(busy_queue) AS queue FROM {task} WHERE busy_queue > :queue)
 WHERE queue IS NOT NULL ORDER BY queue`),
		Next: t(`SELECT MIN(due) AS due, {now} AS now FROM (` + eachPriority(
			`SELECT MIN(due) AS due FROM {task} WHERE ready_queue = :queue AND ready_priority = {p}`) + `
UNION ALL SELECT MIN(` + renewed + `) AS due FROM {task} t WHERE t.busy_queue = :queue) WHERE ` + unpaused),
		Count: t(`SELECT queue, state, COUNT(*) AS tasks, COUNT(*) - COUNT(due) AS parked, COUNT(CASE WHEN due <= {now} THEN 1 END) AS due,
  {now} - MIN(CASE WHEN due <= {now} THEN due END) AS oldest
  FROM {task} GROUP BY queue, state`),
	}
	addCheckout(&st, t)
	addLeases(&st, t)
	addNotes(&st, t)
	addHistory(&st, t)
	return st
}

// moves are the operator's events. Their guards are the state table's.
func moves(t func(string) string) map[state.Event]dialect.Batch {
	set := dialect.MoveSets()
	out := map[state.Event]dialect.Batch{}
	for _, tr := range state.ByOperator() {
		guard := " AND " + state.Guard(tr, "due")
		read := `id, queue, state, attempt, fence, holder, updated, result, result_size, {now} AS now`
		if tr.To == state.None {
			read = `id`
		}
		b := dialect.Batch{First: t(`SELECT ` + read + ` FROM {task} WHERE id IN ({rows})` + guard + ` ORDER BY id FOR UPDATE`),
			ReadRow: `:id`, Sep: ", ", Max: maxRows, Repeat: true}
		if b.SQL = t(`UPDATE {task} SET ` + set[tr.Event] + ` WHERE id = :id` + guard); tr.To == state.None {
			b.SQL = t(`DELETE FROM {task} WHERE id = :id` + guard)
		}
		out[tr.Event] = b
	}
	return out
}

// lockID numbers a lock of DBMS_LOCK by what it locks and by the tables: by their schema, the one that was configured or else the session's, so that users
// who reach the same tables by one way or the other have the same lock, and by their prefix. ALLOCATE_UNIQUE would commit. PL/SQL Packages and
// Types Reference, "DBMS_LOCK".
func lockID(what string) string {
	return `SELECT ORA_HASH({owned_by} || ' {prefix} ' || ` + what + `, 1073741823) INTO l_id FROM dual;`
}

// The queue's lock is taken within seconds or not at all; it is the session's, and outlives a commit. 0 is success, 4 that the session has it.
var (
	queueLock = `DECLARE
  l_id NUMBER(10);
BEGIN
  ` + lockID(`'checkout ' || :queue`) + `
  IF DBMS_LOCK.REQUEST(l_id, 6, 30, FALSE) NOT IN (0, 4) THEN
    RAISE_APPLICATION_ERROR(-20001, 'dbq did not get a lock in time');
  END IF;
END;`
	queueUnlock = `DECLARE
  l_id NUMBER(10);
BEGIN
  ` + lockID(`'checkout ' || :queue`) + `
  IF DBMS_LOCK.RELEASE(l_id) <> 0 THEN
    RAISE_APPLICATION_ERROR(-20001, 'dbq could not give a lock back');
  END IF;
END;`
)

// The migrations' lock is taken where DBMS_LOCK is granted: the inner block does not compile elsewhere, which is error 6550. Without it each statement of a
// migration may meet another process doing the same, and can be run again.
var (
	migrationLock = `DECLARE
  l_id NUMBER(10);
BEGIN
  ` + lockID(`'migration'`) + `
  EXECUTE IMMEDIATE 'BEGIN IF DBMS_LOCK.REQUEST(' || l_id || ', 6, 300, FALSE) NOT IN (0, 4) THEN RAISE_APPLICATION_ERROR(-20001, ''dbq did not get a lock in time''); END IF; END;';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -6550 THEN RAISE; END IF;
END;`
	migrationUnlock = `DECLARE
  l_id NUMBER(10);
BEGIN
  ` + lockID(`'migration'`) + `
  EXECUTE IMMEDIATE 'BEGIN IF DBMS_LOCK.RELEASE(' || l_id || ') <> 0 THEN RAISE_APPLICATION_ERROR(-20001, ''dbq could not give a lock back''); END IF; END;';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -6550 THEN RAISE; END IF;
END;`
)
