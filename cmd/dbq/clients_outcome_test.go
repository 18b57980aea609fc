//go:build unix

package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// outcomes are workers whose handlers do what the payload says.
var outcomes = map[string]string{"python": `import os, time
from dbq_client import Client, Outcome, Worker

class Textless:
    def __str__(self):
        raise ValueError("no text")

    class Error(Exception):
        def __str__(self):
            raise ValueError("no text")

def handle(task):
    if task.payload == "silent":
        raise Textless.Error()
    if task.payload == "unknown":
        return Outcome("nonsense")
    if task.payload == "unsendable":
        return {"mean": float("nan")}
    if task.payload == "raised":
        raise Outcome("retry", error=object())
    if task.payload == "progress":
        task.progress = Textless()
    task.lost.wait(1.5)
    return task.attempt

worker = Worker(Client("mail", os.environ["URL"]), concurrency=6, lease_seconds=1, wait_seconds=1)
worker.handle("", handle)
worker.run()
`, "node": `import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Outcome, Worker } from 'dbq-client'
const handle = async task => {
  if (task.payload === 'silent') throw Object.create(null)
  if (task.payload === 'unknown') return new Outcome('nonsense')
  if (task.payload === 'unsendable') return { mean: 1n }
  if (task.payload === 'raised') throw new Outcome('retry', { error: 1n })
  if (task.payload === 'progress') task.progress = Object.create(null)
  await sleep(1500, null, { signal: task.signal })
  return task.attempt
}
const client = new Client('mail', { url: process.env.URL })
const worker = new Worker(client, { concurrency: 6, leaseSeconds: 1, waitSeconds: 1 })
worker.handle('', handle)
await worker.run()
`}

// TestClientsFailTasksWhoseOutcomeCannotBeStored is for the languages in which a handler can return an outcome that
// does not exist; package client has tests of its own. It also runs a handler that raises an error without a text, and
// one that sets such a progress: it and the other task keep their leases.
func TestClientsFailTasksWhoseOutcomeCannotBeStored(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		if l.source = outcomes[l.name]; l.source == "" {
			return
		}
		u := newUser(t)
		s := u.serve()
		ids := map[string]string{}
		for _, payload := range []string{"unknown", "unsendable", "raised", "silent", "progress", "plain"} {
			ids[payload] = u.run("enqueue", "--queue", "mail", "--max-attempts", "1", "--payload", payload).id()
		}
		w := u.client(l, s.url)
		for _, payload := range []string{"unknown", "unsendable", "raised"} {
			check.Eventually(t, payload+" fails", func() bool { return u.task(ids[payload])["state"] == "POISON" })
			got := u.task(ids[payload])
			if text, _ := got["result"].(string); got["attempt"] != 1.0 ||
				!strings.HasPrefix(text, "the outcome cannot be stored: ") {
				t.Errorf("%s: %v", payload, got)
			}
		}
		check.Eventually(t, "silent fails", func() bool { return u.task(ids["silent"])["state"] == "POISON" })
		for _, payload := range []string{"progress", "plain"} {
			check.Eventually(t, payload+" ends", func() bool { return u.task(ids[payload])["state"] == "COMPLETED" })
			if got := u.task(ids[payload]); got["attempt"] != 1.0 {
				t.Errorf("%s: %v", payload, got)
			}
		}
		w.stops()
	})
}

// releases are workers without a handler for most kinds, whose handlers do not end.
var releases = map[string]string{"python": `import asyncio, os, threading
from dbq_client import Client, Worker

worker = Worker(Client("mail", os.environ["URL"]), wait_seconds=1, drain_seconds=0.1)

def event(*words):
    print(*words, file=open(os.environ["EVENTS"], "a"))

@worker.task("slow")
def slow(task):
    event("started", task.id)
    task.lost.wait(100)
    event("lost", task.id)

@worker.task("async")
async def slow_async(task):
    event("started", task.id)
    try:
        await asyncio.sleep(100)
    finally:
        event("lost", task.id)

@worker.task("stuck")
def stuck(task):
    event("started", task.id)
    threading.Event().wait(100)

worker.run()
`, "node": `import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Worker } from 'dbq-client'
const event = (...words) => appendFileSync(process.env.EVENTS, words.join(' ') + '\n')
const worker = new Worker(new Client('mail', { url: process.env.URL }), { waitSeconds: 1, drainSeconds: 0.1 })
const slow = async task => {
  event('started', task.id)
  await sleep(100_000, null, { signal: task.signal }).catch(() => {})
  event('lost', task.id)
}
worker.handle('slow', slow)
worker.handle('async', slow)
worker.handle('stuck', task => {
  event('started', task.id)
  return new Promise(() => {})
})
await worker.run()
`}

// TestClientsReleaseTasks puts a task back whose kind has no handler, with the progress of another worker, and stops
// the worker while handlers run: both lose no attempt.
func TestClientsReleaseTasks(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		if l.source = releases[l.name]; l.source == "" {
			return // package worker has tests of its own
		}
		u := newUser(t)
		s := u.serve()
		enqueue := func(kind string) string { return u.run("enqueue", "--queue", "mail", "--kind", kind).id() }
		progress := strings.Repeat("x", 3000) // longer than a client's own
		other := enqueue("other")
		lease := s.checkout("mail").Lease
		s.call("POST", "/v1/db/default/queues/mail/settle",
			`{"settlements": [{"outcome": "release", "lease": "`+lease+`", "progress": "`+progress+`"}]}`, nil)
		w := u.client(l, s.url)
		check.Eventually(t, "a task without a handler goes back", func() bool {
			task := u.task(other)
			return strings.Contains(w.err.String(), "without a handler") && task["state"] == "CREATED"
		})
		if got, _ := u.task(other)["progress"].(string); got != progress {
			t.Errorf("the task has kept %d characters of its progress, want %d", len(got), len(progress))
		}
		running := []string{enqueue("slow"), enqueue("async"), enqueue("stuck")}
		check.Eventually(t, "handlers run", func() bool { return len(u.events("started")) == len(running) })
		w.stops()
		for _, id := range append(running, other) {
			if got := u.task(id); got["state"] != "CREATED" || got["attempt"] != 0.0 {
				t.Errorf("the task is %v in attempt %v: %v", got["state"], got["attempt"], got)
			}
		}
		if got := u.events("lost"); len(got) != 2 {
			t.Errorf("handlers that noticed: %v", got)
		}
	})
}

// enqueues are programs that enqueue a task twice, and then one that is refused, with patience and without a server.
var enqueues = map[string]string{"python": `import os, time
from dbq_client import Client, Problem

def event(*words):
    print(*words, file=open(os.environ["EVENTS"], "a"))

client = Client("mail", os.environ["URL"])
for task in [{"reference": "a"}, {"reference": "a"}, {"payload": "x"}]:
    event("added", client.enqueue(task)[0].get("duplicate", False))
try:
    client.enqueue({"priority": 99})
except Problem as e:
    event("refused", e.type, e.detail)
begin = time.monotonic()
try:
    Client("mail", "http://127.0.0.1:1").enqueue({}, patience=0.5)
except OSError:
    event("away", time.monotonic() - begin < 10)
`, "node": `import { appendFileSync } from 'node:fs'
import { Client } from 'dbq-client'
const event = (...words) => appendFileSync(process.env.EVENTS, words.join(' ') + '\n')
const client = new Client('mail', { url: process.env.URL })
for (const task of [{ reference: 'a' }, { reference: 'a' }, { payload: 'x' }]) {
  event('added', (await client.enqueue([task]))[0].duplicate ?? false)
}
await client.enqueue([{ priority: 99 }]).catch(e => event('refused', e.type, e.detail))
const begin = performance.now()
await new Client('mail', { url: 'http://127.0.0.1:1' }).enqueue([{}], { patience: 0.5 })
  .catch(() => event('away', performance.now() - begin < 10_000))
`}

// TestClientsReportDuplicatesAndDetails is for the languages whose client has errors of its own.
func TestClientsReportDuplicatesAndDetails(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		if l.source = enqueues[l.name]; l.source == "" {
			return
		}
		u := newUser(t)
		if o := u.client(l, u.serve().url).wait(); o.code != 0 {
			t.Fatalf("it ended with %d: %s", o.code, o.err)
		}
		if got := strings.ToLower(strings.Join(u.events("added"), " ")); got != "false true false" {
			t.Errorf("duplicates: %s", got)
		}
		if got := u.events("refused"); !slices.Equal(got, []string{"priority A priority is 0 (first) to 9."}) {
			t.Errorf("refused: %q", got)
		}
		if got := strings.ToLower(strings.Join(u.events("away"), " ")); got != "true" {
			t.Errorf("without a server: %s", got)
		}
	})
}

// TestNodeWorkerKeepsNothingOfEndedTasks counts the promises in memory while a busy worker ends tasks.
func TestNodeWorkerKeepsNothingOfEndedTasks(t *testing.T) {
	t.Parallel()
	const tasks, warm = 600, 200
	eachLanguage(t, func(t *testing.T, l language) {
		if l.name != "node" {
			return
		}
		l.source = `import { appendFileSync } from 'node:fs'
import v8 from 'node:v8'
import { Client, Worker } from 'dbq-client'
let n = 0
const handle = async () => {
  if (++n !== ` + itoa(warm) + ` && n !== ` + itoa(tasks) + `) return
  appendFileSync(process.env.EVENTS, 'promises ' + v8.queryObjects(Promise, { format: 'count' }) + '\n')
}
const worker = new Worker(new Client('mail', { url: process.env.URL }), { concurrency: 1, waitSeconds: 1 })
worker.handle('', handle)
await worker.run()
`
		u := newUser(t)
		s := u.serve()
		u.feed(strings.Repeat("{}\n", tasks), "enqueue", "--queue", "mail", "--lines").ok()
		w := u.client(l, s.url)
		check.Eventually(t, "all tasks end", func() bool { return len(u.events("promises")) == 2 })
		w.stops()
		var counts [2]int
		for i, text := range u.events("promises") {
			counts[i], _ = strconv.Atoi(text)
		}
		if counts[0] == 0 || counts[1]-counts[0] > (tasks-warm)/4 {
			t.Errorf("%d promises after %d tasks, %d after %d", counts[0], warm, counts[1], tasks)
		}
	})
}
