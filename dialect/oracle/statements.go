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

// noLease are the assignments for a row that has no lease, and does not say how its last attempt ended.
const noLease = "lease_until = NULL, taken = NULL"

const (
	maxRows  = 500 // in a list of ids or of pairs, and in a batch; Oracle takes 1000 in a list
	maxTasks = 100 // in one block of inserts, with a dozen values each
)

func text(n dialect.Names, s string) string {
	return n.Filler("{owned_by}", ownedBy(n), "{now}", now, "{columns}", columns)(s)
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
		byKey = ` WHERE id = :id AND fence = :fence AND state = 1`
		spent = `:state = 3 AND attempt >= max_attempts`
		keeps = `:state = 0 AND :result_size IS NULL`
	)
	each := func(s string) dialect.Batch { return dialect.Batch{SQL: t(s), Max: maxRows} }
	ids := func(s string) dialect.Batch { return dialect.Batch{SQL: t(s), Row: `:id`, Sep: ", ", Max: maxRows} }
	st := dialect.Statements{
		Style: dialect.Colon,
		Now:   now,
		Dual:  "FROM dual",
		Limit: "FETCH FIRST :limit ROWS ONLY",

		Columns:   t(shown),
		Payload:   "t.payload, t.payload_size",
		DropTable: unless(gone, "DROP TABLE {name} PURGE"),
		DropView:  unless(gone, "DROP VIEW {name}"),

		MigrationLock:   t(migrationLock),
		MigrationUnlock: t(migrationUnlock),

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
			Sep: "\n  ", Max: maxTasks,
		},
		Settle: each(`UPDATE {task} SET
  due = CASE WHEN ` + spent + ` THEN NULL ELSE COALESCE(:at, {now} + :after) END,
  state = CASE WHEN ` + spent + ` AND COALESCE(:at, :after) IS NOT NULL THEN 4 ELSE :state END,
  attempt = attempt - :uncount, lease_until = NULL, updated = {now},
  result_size = CASE WHEN ` + keeps + ` THEN result_size ELSE :result_size END,
  result = CASE WHEN ` + keeps + ` THEN result ELSE :result END` + byKey),
		Remove: each(`DELETE FROM {task}` + byKey),
		Unlocked: ids(`SELECT /*+ INDEX(t {prefix}task_pk) */ t.id FROM {task} t
 WHERE t.id IN ({rows}) FOR UPDATE SKIP LOCKED`),
		Start:     each(`UPDATE {task} SET started = 1` + byKey),
		SetResult: each(`UPDATE {task} SET result = :result, result_size = :result_size WHERE id = :id`),

		Held: t(`SELECT ` + shown + `, t.payload, t.payload_size, {now} AS now FROM {task} t
 WHERE t.busy_queue = :queue AND t.holder = :holder`),
		IDBehind: t(`SELECT t.id FROM {task} t WHERE t.id > :after AND t.id < :before
 ORDER BY t.id OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY`),
		Peek: ids(`SELECT t.id, t.queue, t.state, t.fence, t.updated FROM {task} t WHERE t.id IN ({rows})`),
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
	st.Movable, st.Move = dialect.Moves("due = NULL", "due = {now}", noLease, func(guard string, purge bool) dialect.Batch {
		read := `id, queue, state, attempt, fence, holder, taken, updated, result, result_size, {now} AS now`
		if purge {
			read = `id`
		}
		return ids(`SELECT ` + read + ` FROM {task} WHERE id IN ({rows}) AND ` + guard + ` ORDER BY id FOR UPDATE`)
	}, func(set, guard string) dialect.Batch {
		if set == "" {
			return each(`DELETE FROM {task} WHERE id = :id AND ` + guard)
		}
		return each(`UPDATE {task} SET ` + set + ` WHERE id = :id AND ` + guard)
	})
	st.Batches = batches(t)
	addCheckout(&st, t)
	addLeases(&st, t)
	addHistory(&st, t)
	return st
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
