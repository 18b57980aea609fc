package conformance

import "github.com/dbq-go/dbq/dialect"

// limitMutants break the rate per key.
func limitMutants() []mutant {
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
			edit: rates("SELECT task_key, full_at + 3600000000 AS full_at FROM {key_rate}"+
				" WHERE queue = :queue AND task_key IN ({rows})", ":name"),
			caught: []string{"Limits/KeyRateGoesOn"}},
		{name: "rate-per-key-of-other-queues",
			edit: rates("SELECT task_key, max(full_at) AS full_at FROM {key_rate} WHERE :queue <> '' AND task_key IN ({rows})"+
				" GROUP BY task_key", ":name"),
			caught: []string{"Limits/KeyRateDelaysNoOtherKey"}},
	}
}
