package main

import "net/url"

// consolePage is a page to measure: what it is called, its path, and a text that it has if it shows what it should.
type consolePage struct{ name, path, has string }

// consolePages returns all pages.
func consolePages(ids consoleIDs) []consolePage {
	const db = "/db/bench/"
	with := func(page string, query ...string) string {
		values := url.Values{}
		for i := 0; i+1 < len(query); i += 2 {
			values.Set(query[i], query[i+1])
		}
		return db + page + "?" + values.Encode()
	}
	row := `href="/db/bench/task/` // a task of a list
	all := []consolePage{
		{"databases", "/", "other"},
		{"overview", db, mixedQueue},
		{"server", db + "server", "strategy"},
		{"queue with half of all tasks", with("queue", "queue", halfQueue), halfQueue},
		{"queue, 24 hours", with("queue", "queue", mixedQueue, "over", "24h"), mixedQueue},
		{"queue, 7 days", with("queue", "queue", mixedQueue, "over", "7d"), mixedQueue},
		{"limits and keys of a queue", with("keys", "queue", mixedQueue), "key-1"},
		{"keys of the queue with half of all tasks", with("keys", "queue", halfQueue), "key-1"},
		{"tasks", db + "tasks", row},
		{"tasks, oldest first", with("tasks", "order", "oldest"), row},
		{"tasks, a page in the middle", with("tasks", "at", ids.middle.String()), row},
		{"tasks by reference", with("tasks", "reference", ids.reference), row},
		{"tasks by kind", with("tasks", "kind", "kind-1"), row},
		{"tasks by a rare kind", with("tasks", "kind", "rare"), ""},
		{"tasks by a kind that none has", with("tasks", "kind", "none"), ""},
		{"tasks by key", with("tasks", "key", "key-1500"), ""},
		{"tasks of a workflow", with("tasks", "workflow", ids.largeFlow.String()), row},
		{"tasks in POISON, all queues", with("tasks", "state", "POISON"), row},
		{"tasks in their state for 20 days", with("tasks", "older", "20d"), ""},
		{"tasks that changed within an hour", with("tasks", "newer", "1h"), ""},
		{"tasks of the archive", with("tasks", "order", "archive"), row},
		{"archive by queue", with("tasks", "order", "archive", "queue", mixedQueue), row},
		{"archive by a kind that none has", with("tasks", "order", "archive", "kind", "none"), ""},
		{"archive by reference", with("tasks", "order", "archive", "reference", ids.reference), row},
	}
	for _, queue := range []string{halfQueue, mixedQueue} {
		name := "half of all: "
		if queue == mixedQueue {
			name = "many in each state: "
		}
		list := func(what, has string, query ...string) {
			all = append(all, consolePage{name + what, with("tasks", append(query, "queue", queue)...), has})
		}
		list("all tasks", row)
		// Where an index leads to too many tasks, a page looks at the next ones of all queues, and may find none.
		for _, state := range []string{"CREATED", "PROCESSING", "COMPLETED", "ERROR", "POISON"} {
			list(state, "", "state", state)
		}
		list("ERROR, oldest first", "", "state", "ERROR", "order", "oldest")
		list("ERROR, from the middle", "", "state", "ERROR", "at", ids.middle.String())
		list("POISON, from the middle", "", "state", "POISON", "at", ids.middle.String())
		list("PROCESSING, from the middle", "", "state", "PROCESSING", "at", ids.middle.String())
		list("parked", "", "state", "ERROR", "mark", "parked")
		list("cancelled", "", "state", "POISON", "mark", "cancelled")
		list("by kind", row, "kind", "kind-1")
		list("ERROR by a kind that none has", "", "state", "ERROR", "kind", "none")
		list("POISON by key", "", "state", "POISON", "key", "key-1500")
		list("PROCESSING, by holder", "", "state", "PROCESSING", "holder", "worker-105")
		list("PROCESSING for an hour", "", "state", "PROCESSING", "older", "1h")
		list("by reference", "", "reference", ids.reference)
		list("error text", "", "state", "POISON", "error", "connection refused")
		list("error text that none has", "", "state", "ERROR", "error", "no such text")
		list("payload text that none has", "", "state", "COMPLETED", "payload", "no such text")
	}
	preview := func(name string, query ...string) {
		all = append(all, consolePage{"bulk preview: " + name, with("bulk", query...), "tasks"})
	}
	preview("reenqueue POISON of a queue", "event", "reenqueue", "queue", mixedQueue, "state", "POISON")
	preview("cancel all of a queue", "event", "cancel", "queue", halfQueue)
	preview("cancel a kind that none has", "event", "cancel", "queue", halfQueue, "kind", "none")
	preview("cancel a key in all queues", "event", "cancel", "key", "key-1500")
	preview("purge COMPLETED of a queue", "event", "purge", "queue", halfQueue, "state", "COMPLETED")
	preview("purge a kind that none has", "event", "purge", "kind", "none")
	preview("purge a workflow", "event", "purge", "workflow", ids.largeFlow.String())
	return append(all,
		consolePage{"task", db + "task/" + ids.task.ID.String(), halfQueue},
		consolePage{"task in POISON", db + "task/" + ids.poisoned.ID.String(), "refused"},
		consolePage{"task of a large workflow", db + "task/" + ids.step.ID.String(), "flow"},
		consolePage{"confirmation of an event", db + "task/" + ids.poisoned.ID.String() + "/reenqueue", mixedQueue},
		consolePage{"workflow", db + "workflow/" + ids.smallFlow.String(), "part 1"},
		consolePage{"large workflow", db + "workflow/" + ids.largeFlow.String(), "part 1"},
		consolePage{"cancel a large workflow", db + "workflow/" + ids.largeFlow.String() + "/cancel", "tasks"},
		consolePage{"workers", db + "workers", "worker-150"},
		consolePage{"schedules", db + "schedules", "nightly-42"},
		consolePage{"schedule", with("schedule", "name", "nightly-42"), "nightly-42"},
		consolePage{"form of a schedule", with("schedule/edit", "name", "nightly-42"), "nightly-42"},
		consolePage{"form of a task", with("enqueue", "queue", mixedQueue), mixedQueue},
		consolePage{"dead letters", db + "poison", mixedQueue},
		consolePage{"dead letters of a queue", with("poison", "queue", mixedQueue), "refused"},
		consolePage{"dead letters of the queue with half of all tasks", with("poison", "queue", halfQueue), "refused"},
		consolePage{"audit", db + "audit", "nightly-"},
		consolePage{"audit of a queue", with("audit", "queue", mixedQueue), "maintenance"},
		consolePage{"audit of a queue that has none", with("audit", "queue", "none"), ""},
		consolePage{"audit by an action that none has", with("audit", "action", "none"), ""},
		consolePage{"audit by an operator who has none", with("audit", "by", "none"), ""},
		consolePage{"audit of a task", with("audit", "task", ids.task.ID.String()), ""},
		consolePage{"audit of a time", with("audit", "since", "2020-01-01T00:00", "until", "2020-02-01T00:00"), ""},
	)
}
