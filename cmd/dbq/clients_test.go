//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
)

// language is one of the clients in clients/, or package client, with a worker that the tests run. The worker enqueues
// each argument as a task without a kind and as one of the kind "async", or works if it has none. It appends what it
// does to the file $EVENTS.
type language struct {
	name, script, source string
	install              func() (installed, error)
}

var languages = []language{
	{"python", "worker.py", `import asyncio, os, random, sys, time
from dbq_client import Client, Outcome, Worker

client = Client("mail", os.environ["URL"])
lease = float(os.environ["LEASE"])

def event(*words):
    with open(os.environ["EVENTS"], "a") as f:
        f.write(" ".join(map(str, words)) + "\n")

def handle(task):
    event("started", task.id, task.attempt)
    if task.payload == "long":
        task.progress = "half"
        task.lost.wait(1.5 * lease)
        while not os.path.exists("seen") and not task.lost.wait(0.05):
            pass
    elif task.payload == "hang" and task.attempt == 1:
        task.lost.wait(1000)
        event("lost", task.id)
    elif task.payload == "retry" and task.attempt == 1:
        raise Outcome("retry", error="busy", delay_seconds=0.1)
    elif task.payload == "fail":
        raise ValueError("broken")
    else:
        time.sleep(random.random() / 20)
    event("done", task.id)
    return {"progress": task.progress}

worker = Worker(client, lease_seconds=lease, wait_seconds=1)
worker.handle("", handle)

@worker.task("async")
async def handle_async(task):
    if task.payload != "hang" or task.attempt > 1:
        return await asyncio.to_thread(handle, task)
    event("started", task.id, task.attempt)
    try:
        await asyncio.sleep(1000)
    finally:
        event("lost", task.id)

for text in sys.argv[1:]:
    two = client.enqueue({"payload": text}, {"payload": text, "kind": "async"}, patience=60)
    event("enqueued", *[t["id"] for t in two])
if not sys.argv[1:]:
    worker.run()
`, installPython},
	{"node", "worker.mjs", `import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Outcome, Worker } from 'dbq-client'
const client = new Client('mail', { url: process.env.URL })
const lease = Number(process.env.LEASE)
const event = (...words) => appendFileSync(process.env.EVENTS, words.join(' ') + '\n')
const handle = async task => {
  event('started', task.id, task.attempt)
  if (task.payload === 'long') {
    task.progress = 'half'
    await sleep(1500 * lease, null, { signal: task.signal })
    while (!existsSync('seen')) await sleep(50, null, { signal: task.signal })
  } else if (task.payload === 'hang' && task.attempt === 1) {
    await sleep(1e6, null, { signal: task.signal }).catch(() => {})
    event('lost', task.id)
  } else if (task.payload === 'retry' && task.attempt === 1) {
    throw new Outcome('retry', { error: 'busy', delay_seconds: 0.1 })
  } else if (task.payload === 'fail') {
    throw new Error('broken')
  } else {
    await sleep(Math.random() * 50)
  }
  event('done', task.id)
  return { progress: task.progress }
}
for (const payload of process.argv.slice(2)) {
  const two = await client.enqueue([{ payload }, { payload, kind: 'async' }], { patience: 60 })
  event('enqueued', ...two.map(t => t.id))
}
const worker = new Worker(client, { leaseSeconds: lease, waitSeconds: 1 })
worker.handle('', handle)
if (process.argv.length === 2) await worker.run()
`, installNode},
	{"go", "worker.go", goWorker, findGo},
}

// eachLanguage runs a test for each client whose language is installed.
func eachLanguage(t *testing.T, test func(t *testing.T, l language)) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			_, err := l.install()
			needs(t, err)
			test(t, l)
		})
	}
}

// client starts the worker of a language, which calls the API at a URL.
func (u *user) client(l language, at string, args ...string) *background {
	u.t.Helper()
	if u.read(l.script) == "" { // an earlier process may still read it
		u.write(l.script, l.source)
	}
	from, err := l.install()
	check.OK(u.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	u.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, from.program, append([]string{l.script}, args...)...)
	switch l.name {
	case "node":
		from.link(u)
	case "go":
		cmd = exec.CommandContext(ctx, u.build(l.script), args...)
	}
	cmd.Dir, cmd.Env = u.dir, append(append([]string{"LEASE=1"}, u.env...), "URL="+at, "EVENTS="+u.file("events"),
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=")
	return u.spawn(cmd)
}

// events returns the lines that workers have reported with a word, without the word.
func (u *user) events(word string) []string {
	var out []string
	for line := range strings.Lines(u.read("events") + "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word+" "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// eachEndedOnce checks that n tasks were enqueued, and that each was handled, and completed in one of its attempts.
func (u *user) eachEndedOnce(c *dbq.Client, n int) {
	u.t.Helper()
	enqueued := strings.Fields(strings.Join(u.events("enqueued"), " "))
	slices.Sort(enqueued)
	if enqueued = slices.Compact(enqueued); len(enqueued) != n {
		u.t.Errorf("%d ids, want %d", len(enqueued), n)
	}
	done, attempts := u.events("done"), 0
	for _, text := range enqueued {
		id, err := parseID(text)
		if err != nil {
			u.t.Fatal(err)
		}
		history, err := admin.New(c).Attempts(u.t.Context(), id)
		if err != nil {
			u.t.Fatal(err)
		}
		completed := 0
		for _, a := range history {
			if a.Outcome == dbq.AttemptCompleted {
				completed++
			}
		}
		if attempts += len(history); completed != 1 || !slices.Contains(done, text) {
			u.t.Errorf("task %s was completed %d times, in %v", text, completed, history)
		}
	}
	u.t.Logf("%d tasks in %d attempts", n, attempts)
}

// TestClientsLoseNothingThroughKills enqueues and works with each client while the server and workers are killed, and
// the connections of the database are cut.
func TestClientsLoseNothingThroughKills(t *testing.T) {
	rounds, repeats := 9, 8
	if testing.Short() {
		rounds, repeats = 4, 2
	}
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		t.Parallel()
		for _, engine := range servedEngines {
			t.Run(engine, func(t *testing.T) {
				u := newUser(t)
				dsn, cut := ownDatabase(t, engine)
				server := u.serveRestartable(dsn)
				c, err := dbq.Open(t.Context(), dsn)
				check.OK(t, err)
				defer c.Close()
				workers := []*background{u.client(l, server.url), u.client(l, server.url)}
				hanging := u.client(l, server.url, "hang").wait()
				if hanging.code != 0 {
					t.Fatal(hanging.err)
				}
				check.Eventually(t, "the handlers hang", func() bool { return len(u.events("started")) >= 2 })
				u.write("seen", "") // a handler of "long" does not wait for the test
				texts := slices.Repeat([]string{"short", "short", "short", "short", "retry"}, repeats)
				producer := u.client(l, server.url, append(texts, "long")...)
				for i := range rounds {
					time.Sleep(150 * time.Millisecond)
					switch i % 4 {
					case 0, 2: // each worker once, so that no hanging handler survives
						n := i / 2 % 2
						workers[n].signal(syscall.SIGKILL)
						workers[n].wait()
						workers[n] = u.client(l, server.url)
					case 1:
						server.crash()
					case 3:
						cut()
					}
				}
				if o := producer.wait(); o.code != 0 {
					t.Fatalf("the producer ended with %d: %s", o.code, o.err)
				}
				want := int64(2*len(texts) + 4)
				defer func() {
					if t.Failed() {
						t.Logf("tasks:\n%s\nworkers:\n%s\n%s", u.run("list", "--dsn", dsn).out, workers[0].err, workers[1].err)
					}
				}()
				check.Eventually(t, "all tasks are completed", func() bool {
					completed, others := server.count(c)
					return completed == want && others == 0
				})
				for _, w := range workers {
					w.stops()
				}
				u.eachEndedOnce(c, int(want))
			})
		}
	})
}

// lineOfOutage matches the log line of a client's worker while its server is away.
var lineOfOutage = regexp.MustCompile("is repeated|does not answer")

// TestClientsKeepLeasesAndDrain runs a handler for longer than its lease, stops a worker while handlers run, cancels a
// task, starts a worker before its server, and uses a token.
func TestClientsKeepLeasesAndDrain(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		u := newUser(t)
		u.run("migrate", "--dsn", "q.db").ok()
		secret := u.run("token", "create", "w", "--role", "trigger", "--dsn", "q.db", "--json").one()["secret"].(string)
		u.write("token", secret+"\n")
		// No heartbeat of a busy machine is late for a lease of 5 seconds.
		u.env = append(u.env, "DBQ_TOKEN_FILE="+u.file("token"), "LEASE=5")
		first := u.serve("--dsn", "q.db", "--tokens", "default")
		first.stops()
		w, enqueued := u.client(l, first.url), u.client(l, first.url, "long", "fail", "retry", "hang")
		check.Eventually(t, "calls are repeated", func() bool { return lineOfOutage.MatchString(w.err.String()) })
		u.serve("--dsn", "q.db", "--tokens", "default", "--listen", strings.TrimPrefix(first.url, "http://"))
		if o := enqueued.wait(); o.code != 0 {
			t.Fatalf("the producer ended with %d: %s", o.code, o.err)
		}
		u.flags = []string{"--dsn", "q.db"}
		ids := strings.Fields(strings.Join(u.events("enqueued"), " "))
		long, failed, retried, hanging := ids[0], ids[2], ids[4], ids[6]
		check.Eventually(t, "progress is stored", func() bool { return u.task(long)["progress"] == "half" })
		u.write("seen", "") // the handler ends, and with it its progress
		check.Eventually(t, "the handler hangs", func() bool { return slices.Contains(u.events("started"), hanging+" 1") })
		u.run("cancel", hanging).ok()
		check.Eventually(t, "its handler ends", func() bool { return slices.Contains(u.events("lost"), hanging) })
		async := ids[7]
		check.Eventually(t, "the other one hangs", func() bool { return slices.Contains(u.events("started"), async+" 1") })
		u.run("cancel", async).ok()
		check.Eventually(t, "its handler ends, too", func() bool { return slices.Contains(u.events("lost"), async) })
		check.Eventually(t, "others", func() bool {
			return u.task(failed)["state"] == "ERROR" && u.task(retried)["state"] == "COMPLETED"
		})
		w.stops()
		if got := u.task(long); got["state"] != "COMPLETED" || got["attempt"] != 1.0 {
			t.Errorf("the handler that outlasts its lease: %v", got)
		}
		if got := u.task(failed)["result"]; !strings.Contains(fmt.Sprint(got), "rror: broken") {
			t.Errorf("the failed task has the error %v", got)
		}
	})
}

// TestNodeWaitsForTheResponse makes a call over a connection that does not keep its process alive. A producer whose
// server had been killed was seen to end with status 13, and its call with it.
func TestNodeWaitsForTheResponse(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		if l.name != "node" {
			return // no other language ends a process that waits
		}
		l.source = `import { subscribe } from 'node:diagnostics_channel'
subscribe('undici:client:sendHeaders', ({ socket }) => socket.unref())
const { Client } = await import('dbq-client')
await new Client('mail', { url: process.env.URL }).call('checkout', { wait_seconds: 1 })
`
		u := newUser(t)
		if o := u.client(l, u.serve().url).wait(); o.code != 0 {
			t.Errorf("it ended with %d: %s", o.code, o.err)
		}
	})
}

// TestProgramsOfClientsPagesRun runs the programs of the clients' pages until each has completed its task.
func TestProgramsOfClientsPagesRun(t *testing.T) {
	t.Parallel()
	pages := map[string][2]string{
		"python": {"clients/python/README.md", "python"}, "node": {"clients/node/README.md", "js"},
		"go": {"docs/clients.md", "go"},
	}
	eachLanguage(t, func(t *testing.T, l language) {
		u := newUser(t)
		page, err := os.ReadFile("../../" + pages[l.name][0])
		check.OK(t, err)
		blocks := regexp.MustCompile("(?s)```"+pages[l.name][1]+"\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		if len(blocks) != 1 {
			t.Fatalf("%s has %d programs in %s", pages[l.name][0], len(blocks), l.name)
		}
		s := u.serve()
		l.source = strings.ReplaceAll(blocks[0][1], "http://127.0.0.1:8321", s.url)
		w := u.client(l, s.url)
		check.Eventually(t, "the task is completed", func() bool {
			_, body := s.get("/v1/db/default/tasks?state=completed")
			return strings.Contains(body, "send-mail")
		})
		w.stops()
	})
}
