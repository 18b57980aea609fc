package conformance

import (
	"regexp"
	"slices"

	"github.com/dbq-go/dbq/dialect"
)

// limitMutants break the limits of queues.
func limitMutants() []mutant {
	return slices.Concat(leasedMutants(), recordMutants(), turnMutants(), orderMutants(), keyRateMutants())
}

// leasedMutants break the counts of leased tasks.
func leasedMutants() []mutant {
	busy := func(sql string) func(st *dialect.Statements, n dialect.Names) {
		return func(st *dialect.Statements, n dialect.Names) { st.Busy = n.Filler("{now}", clock)(sql) }
	}
	busyKeys := func(sql string) func(st *dialect.Statements, n dialect.Names) {
		return func(st *dialect.Statements, n dialect.Names) { st.BusyKeys = n.Filler("{now}", clock)(sql) }
	}
	const from = " FROM {task} t WHERE t.queue = :queue AND t.state = 1"
	return []mutant{
		{name: "leased-one-not-counted",
			edit:   busy("SELECT max(count(*) - 1, 0) AS tasks" + from),
			caught: []string{"Limits/EveryEndFreesTheSlot", "Limits/TakeoverKeepsTheSlot"},
			races:  []string{"Limits/NeverOverTheLimit"}},
		{name: "leased-without-expired",
			edit:  busy("SELECT count(*) AS tasks" + from + " AND t.lease_until > {now}"),
			races: []string{"Limits/TakeoverKeepsTheSlot", "Limits/NeverOverTheLimit"}},
		{name: "leased-of-all-queues",
			edit:   busy("SELECT count(*) AS tasks FROM {task} t WHERE :queue <> '' AND t.state = 1"),
			caught: []string{"Limits/OtherQueuesAreFree"}},
		{name: "leased-of-keys-as-one",
			edit:   busyKeys("SELECT NULL AS task_key, count(*) AS tasks" + from),
			caught: []string{"Limits/HotKeyDelaysNoOtherKey"},
			races:  []string{"Limits/NeverOverTheLimitOfAKey"}},
		{name: "leased-of-keys-without-expired",
			edit:  busyKeys("SELECT t.task_key, count(*) AS tasks" + from + " AND t.lease_until > {now} GROUP BY t.task_key"),
			races: []string{"Limits/NeverOverTheLimitOfAKey"}},
	}
}

// recordMutants store something else than what a checkout writes into the record of the limits.
func recordMutants() []mutant {
	stored := func(value string) func(text string) string {
		return func(text string) string {
			table := regexp.MustCompile(`CREATE TABLE (\S*kv) \(`).FindStringSubmatch(text)
			if table == nil {
				return text
			}
			return text + ";\nCREATE TRIGGER " + table[1] + "_mutant AFTER UPDATE ON " + table[1] +
				" WHEN new.namespace = 'limit'\n" +
				"BEGIN UPDATE " + table[1] + " SET value = " + value + " WHERE namespace = new.namespace AND name = new.name; END"
		}
	}
	const now, full = clock + " * 1000", "json_extract(new.value, '$.full_at')"
	return []mutant{
		{name: "rate-forgotten",
			schema: stored("json_remove(new.value, '$.full_at')"),
			caught: []string{"Limits/RetriesAndTakeoversAreStarts"},
			races:  []string{"Limits/Rate"}},
		{name: "rate-twice-as-fast",
			schema: stored("CASE WHEN " + full + " > " + now + " THEN json_set(new.value, '$.full_at', (" + full + " + " + now +
				") / 2) ELSE new.value END"),
			caught: []string{"Limits/RetriesAndTakeoversAreStarts"}},
		{name: "turn-forgotten",
			schema: stored("json_remove(new.value, '$.after_key')"),
			caught: []string{"Limits/KeysInTurn", "Limits/OneTurnOfAllClients"}},
	}
}

// turnMutants break the search for the next keys.
func turnMutants() []mutant {
	return []mutant{
		{name: "due-keys-every-other",
			edit: func(st *dialect.Statements, n dialect.Names) {
				st.DueKeys = dueKeys(n, "ORDER BY t.task_key, t.due, t.id LIMIT 1 OFFSET 1")
			},
			caught: []string{"Limits/HotKeyDelaysNoOtherKey"}},
		{name: "due-keys-latest-first",
			edit: func(st *dialect.Statements, n dialect.Names) {
				st.DueKeys = dueKeys(n, "ORDER BY t.task_key DESC, t.due, t.id LIMIT 1")
			},
			caught: []string{"Limits/KeysInTurn"}},
		{name: "due-first-of-one-priority",
			edit: func(st *dialect.Statements, n dialect.Names) {
				st.DueTasks = n.Filler("{now}", clock)("SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due," +
					" length(t.payload) AS payload_size FROM {task} t" +
					" WHERE t.queue = :queue AND t.priority = 0 AND t.due <= {now} ORDER BY t.due, t.id LIMIT :limit")
			},
			caught: []string{"Limits/TasksWithoutKey"}},
		{name: "more-of-keys-one-each",
			edit: func(st *dialect.Statements, n dialect.Names) {
				st.DueOfKeys = dialect.Batch{SQL: "{rows}", Max: 100, Row: n.Filler("{now}", clock)(
					"SELECT * FROM (SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, " +
						"length(t.payload) AS payload_size" +
						" FROM {task} t WHERE t.queue = :queue AND t.task_key = :task_key AND t.due <= {now} AND :limit > 0" +
						" ORDER BY t.due, t.id LIMIT 1) x")}
			},
			caught: []string{"Limits/KeysInTurn"}},
	}
}

// dueKeys is the sound statement, but for how it finds the next key.
func dueKeys(n dialect.Names, order string) string {
	next := func(after string) string {
		return "(SELECT t.id FROM {task} t WHERE t.queue = :queue AND t.task_key > " + after +
			" AND t.due IS NOT NULL " + order + ")"
	}
	return n.Filler("{now}", clock)("WITH RECURSIVE k (id, n) AS (SELECT " + next(":after") + ", 1 UNION ALL SELECT " +
		next("p.task_key") + ", k.n + 1 FROM k CROSS JOIN {task} p WHERE p.id = k.id AND k.n < :limit)" +
		" SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size, {now} AS now" +
		" FROM k CROSS JOIN {task} t WHERE t.id = k.id")
}

// orderMutants break the search for the first task of each key in order.
func orderMutants() []mutant {
	heads := func(order, blocked string) func(st *dialect.Statements, n dialect.Names) {
		return func(st *dialect.Statements, n dialect.Names) {
			row := n.Filler("{now}", clock)("SELECT * FROM (SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due," +
				" length(t.payload) AS payload_size FROM {task} t" +
				" WHERE t.queue = :queue AND t.task_key = :task_key AND t.due IS NOT NULL ORDER BY " + order + " LIMIT 1) x" +
				" WHERE x.was_due <= {now} AND (:block = 0 OR NOT EXISTS (SELECT 1 FROM {task} f WHERE f.queue = :queue" +
				" AND f.task_key = :task_key AND f.id < x.id AND f.due IS NULL AND " + blocked + "))")
			st.HeadsOfKeys = dialect.Batch{SQL: "{rows}", Row: row, Max: 100}
		}
	}
	const blocked = "f.cancelled = 0 AND (f.state = 3 OR f.state = 4)"
	return []mutant{
		{name: "order-by-due",
			edit:   heads("t.due, t.id", blocked),
			caught: []string{"Limits/WaitingTaskKeepsItsPlace"}},
		{name: "order-of-latest",
			edit:   heads("t.id DESC", blocked),
			caught: []string{"Limits/WaitingTaskKeepsItsPlace", "Limits/OrderBehindManyTasks"},
			races:  []string{"Limits/OrderOfAKey"}},
		{name: "order-past-parked",
			edit:   heads("t.id", "f.cancelled = 0 AND f.state = 4"),
			caught: []string{"Limits/OrderAtPoison"}},
		{name: "order-past-poison",
			edit:   heads("t.id", "f.state = 3"),
			caught: []string{"Limits/OrderAtPoison"}},
		{name: "order-blocked-by-cancelled",
			edit:   heads("t.id", "(f.state = 3 OR f.state = 4)"),
			caught: []string{"Limits/OrderAtPoison"}},
	}
}

// keyRateMutants break the rate per key.
func keyRateMutants() []mutant {
	rates := func(sql, row string) func(st *dialect.Statements, n dialect.Names) {
		return func(st *dialect.Statements, n dialect.Names) {
			fill := n.Filler("{now}", clock)
			st.KeyRates = dialect.Batch{SQL: fill(sql), Row: row, Max: 500}
		}
	}
	return []mutant{
		{name: "rate-per-key-ignored",
			edit: rates("SELECT task_key, 0 AS full_at FROM {key_rate} WHERE queue = :queue AND task_key IN ({rows})",
				":name"),
			caught: []string{"Limits/KeyRateDelaysNoOtherKey", "Limits/KeyRateOfTakeovers"},
			races:  []string{"Limits/KeyRateIsKept"}},
		{name: "rate-per-key-counted-per-queue",
			edit: rates("SELECT column1 AS task_key, (SELECT coalesce(max(full_at), 0) FROM {key_rate} WHERE queue = :queue)"+
				" AS full_at FROM (VALUES {rows})", "(:name)"),
			caught: []string{"Limits/KeyRateDelaysNoOtherKey"}},
		{name: "rate-per-key-twice-as-fast",
			edit: rates("SELECT task_key, {now} + max(full_at - {now}, 0) / 2 AS full_at FROM {key_rate}"+
				" WHERE queue = :queue AND task_key IN ({rows})", ":name"),
			races: []string{"Limits/KeyRateIsKept"}},
		{name: "rate-per-key-never-ends",
			edit: rates("SELECT task_key, full_at + 30000000 AS full_at FROM {key_rate}"+
				" WHERE queue = :queue AND task_key IN ({rows})", ":name"),
			caught: []string{"Limits/KeyRateGoesOn"}},
		{name: "rate-per-key-of-other-queues",
			edit: rates("SELECT task_key, max(full_at) AS full_at FROM {key_rate} WHERE :queue <> '' AND task_key IN ({rows})"+
				" GROUP BY task_key", ":name"),
			caught: []string{"Limits/KeyRateDelaysNoOtherKey"}},
	}
}
