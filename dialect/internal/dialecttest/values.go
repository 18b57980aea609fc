package dialecttest

import (
	"maps"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// One returns a value for each name that the core binds to a statement about one thing. The caller may add names that
// its dialect binds in a checkout.
func One() dialect.Args {
	return dialect.Args{
		"namespace": "k", "part": 0, "who": "a", "program": "p", "address": "", "request": "", "action": "purge",
		"subject": "s", "task": uuid.UUID{3}, "task_filter": "", "reason": "", "old_value": "", "new_value": "", "changed": 1,
		"queue": "q", "holder": "h", "reference": "r", "limit": 10, "lease": int64(1000), "known_started": int64(0),
		"id": uuid.UUID{1}, "after": uuid.UUID{1}, "before": uuid.UUID{2}, "offset": 5,
		"name": "n", "version": 99, "title": "t", "compatible": 98,
		"kind": "k", "value": "v", "ttl": (*int64)(nil), "age": int64(1), "channel": "c", "payload": "p",
		"workflow": uuid.UUID{1}, "child": uuid.UUID{2}, "period": int64(60), "from": int64(0), "until": int64(1),
		"samples": "\tsamples", "bytes": int64(1000), "used": int64(0), "share": int64(100),
		"full_at": int64(1),
	}
}

// Two returns the same for a batch of two rows.
func Two() dialect.Args {
	payload := []byte("p")
	out := dialect.Args{
		"queue": "q", "holder": "h", "lease": int64(1000), "known_started": int64(0),
		"lock_wait": int64(1000), "callers_tx": int64(0), "clock": int64(1), "share": int64(100),
		"id": dialect.Col[uuid.UUID]{{1}, {2}}, "fence": dialect.Col[int64]{1, 2}, "state": dialect.Col[int64]{2, 3},
		"at": dialect.Col[*int64]{nil, new(int64)}, "after": dialect.Col[*int64]{nil, nil},
		"uncount": dialect.Col[int64]{0, 1}, "reused": dialect.Col[int64]{0, 1},
		"result": dialect.Col[[]byte]{nil, {}}, "result_size": dialect.Col[*int64]{nil, new(int64)},
		"reference": dialect.Col[*string]{nil, new(string)}, "task_key": dialect.Col[*string]{nil, new(string)},
		"kind":     dialect.Col[string]{"", "k"},
		"priority": dialect.Col[int64]{0, 9}, "max_attempts": dialect.Col[int64]{1, 2}, "delay": dialect.Col[int64]{0, 1},
		"headers": dialect.Col[*string]{nil, nil}, "now": int64(1),
		"payload": dialect.Col[[]byte]{nil, payload}, "payload_size": dialect.Col[*int64]{nil, sizeOf(payload)},
		"attempt": dialect.Col[int64]{1, 2}, "outcome": dialect.Col[string]{"completed", "failed"},
		"taken": dialect.Col[int64]{1, 2}, "ended": dialect.Col[int64]{2, 3},
		"worker": dialect.Col[string]{"", "w"}, "error": dialect.Col[[]byte]{nil, []byte("e")},
		"task": dialect.Col[uuid.UUID]{{1}, {2}}, "expires": dialect.Col[int64]{1, 2}, "running": int64(0),
		"scope": dialect.Col[string]{"pending", "pending"}, "name": dialect.Col[string]{"a", "b"},
		"workflow_id": dialect.Col[uuid.UUID]{{1}, {1}}, "queue_name": dialect.Col[string]{"q", "q"},
		"needs": dialect.Col[int64]{0, 1}, "dependents": dialect.Col[int64]{1, 0},
		"parent": dialect.Col[uuid.UUID]{{1}, {2}}, "child": dialect.Col[uuid.UUID]{{2}, {3}},
		"on_failure": dialect.Col[int64]{0, 2}, "above": uuid.Nil, "last": uuid.Max, "met": int64(1), "least": int64(0),
		"limit":      10,
		"block":      int64(1),
		"error_size": dialect.Col[*int64]{nil, new(int64)},
		"progress":   dialect.Col[[]byte]{nil, []byte("p")}, "progress_size": dialect.Col[*int64]{nil, sizeOf(payload)},
		"source": dialect.Col[string]{"w", "w"}, "latency": dialect.Col[string]{"", "1:1"},
		"run_time": dialect.Col[string]{"1:1", ""}, "full_at": dialect.Col[int64]{1, 2},
	}
	for name := range sqlrun.ColumnsOf([]sqlrun.StatisticsRow{}) {
		if out[name] == nil {
			out[name] = dialect.Col[int64]{0, 1}
		}
	}
	return out
}

// columns are the values in which the rows of a uniform batch differ.
var columns = map[string][]string{
	"Private insert uniform":   {"id", "payload", "payload_size"},
	"Private complete uniform": {"id"},
	"Private remove uniform":   {"id"},
	"Private lock uniform":     {"id"},
}

// bound returns the arguments that the core binds to a batch whose rows differ in all of args: for arguments that the
// rows of this batch share, the first row's value.
func bound(batch string, args dialect.Args) dialect.Args {
	differ, alike := columns[batch]
	if !alike {
		return args
	}
	args = maps.Clone(args)
	for name, v := range args {
		if col, ok := v.(dialect.Column); ok && !slices.Contains(differ, name) {
			args[name] = col.At(0)
		}
	}
	return args
}

// sizeOf is the length of a payload or a result as :payload_size and :result_size have it: null for none.
func sizeOf(b []byte) *int64 {
	if b == nil {
		return nil
	}
	n := int64(len(b))
	return &n
}
