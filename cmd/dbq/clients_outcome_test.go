//go:build unix

package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// outcomes are workers whose handlers do what the payload says.
var outcomes = map[string]string{"python": `import os, time
from dbq_worker import Client, Outcome, Worker

class Textless:
    def __str__(self):
        raise ValueError("no text")

def handle(task):
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

Worker(Client("mail", os.environ["URL"]), handle, concurrency=5, lease_seconds=1, wait_seconds=1).run()
`, "node": `import { setTimeout as sleep } from 'node:timers/promises'
const { Client, Outcome, Worker } = await import(process.env.NODE_CLIENT)
const handle = async task => {
  if (task.payload === 'unknown') return new Outcome('nonsense')
  if (task.payload === 'unsendable') return { mean: 1n }
  if (task.payload === 'raised') throw new Outcome('retry', { error: 1n })
  if (task.payload === 'progress') task.progress = Object.create(null)
  await sleep(1500, null, { signal: task.signal })
  return task.attempt
}
const client = new Client('mail', { url: process.env.URL })
await new Worker(client, handle, { concurrency: 5, leaseSeconds: 1, waitSeconds: 1 }).run()
`}

// TestClientsFailTasksWhoseOutcomeCannotBeStored is for the languages in which a handler can return an outcome that
// does not exist; package client has tests of its own. It also runs a handler that sets a progress without a text: it
// and the other task keep their leases.
func TestClientsFailTasksWhoseOutcomeCannotBeStored(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		if l.source = outcomes[l.name]; l.source == "" {
			return
		}
		u := newUser(t)
		s := u.serve()
		ids := map[string]string{}
		for _, payload := range []string{"unknown", "unsendable", "raised", "progress", "plain"} {
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
		for _, payload := range []string{"progress", "plain"} {
			check.Eventually(t, payload+" ends", func() bool { return u.task(ids[payload])["state"] == "COMPLETED" })
			if got := u.task(ids[payload]); got["attempt"] != 1.0 {
				t.Errorf("%s: %v", payload, got)
			}
		}
		w.stops()
	})
}

// enqueues are programs that enqueue a task twice, and then one that is refused, with patience and without a server.
var enqueues = map[string]string{"python": `import os, time
from dbq_worker import Client, Problem

def event(*words):
    print(*words, file=open(os.environ["EVENTS"], "a"))

client = Client("mail", os.environ["URL"])
for task in [{"reference": "a"}, {"reference": "a"}, {"payload": "x"}]:
    event("added", client.enqueue(task)[0].get("duplicate", False))
try:
    client.enqueue({"priority": 99})
except Problem as e:
    event("refused", e)
begin = time.monotonic()
try:
    Client("mail", "http://127.0.0.1:1").enqueue({}, patience=0)
except OSError:
    event("away", time.monotonic() - begin < 10)
`, "node": `import { appendFileSync } from 'node:fs'
const { Client } = await import(process.env.NODE_CLIENT)
const event = (...words) => appendFileSync(process.env.EVENTS, words.join(' ') + '\n')
const client = new Client('mail', { url: process.env.URL })
for (const task of [{ reference: 'a' }, { reference: 'a' }, { payload: 'x' }]) {
  event('added', (await client.enqueue([task]))[0].duplicate ?? false)
}
await client.enqueue([{ priority: 99 }]).catch(e => event('refused', e.message))
const begin = performance.now()
await new Client('mail', { url: 'http://127.0.0.1:1' }).enqueue([{}], 0)
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
		if got := u.events("refused"); len(got) != 1 || !strings.Contains(got[0], "A priority is 0 (first) to 9.") {
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
const { Client, Worker } = await import(process.env.NODE_CLIENT)
let n = 0
const handle = async () => {
  if (++n !== ` + itoa(warm) + ` && n !== ` + itoa(tasks) + `) return
  appendFileSync(process.env.EVENTS, 'promises ' + v8.queryObjects(Promise, { format: 'count' }) + '\n')
}
const client = new Client('mail', { url: process.env.URL })
await new Worker(client, handle, { concurrency: 1, waitSeconds: 1 }).run()
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
