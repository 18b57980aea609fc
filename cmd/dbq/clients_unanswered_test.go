//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// unanswered are workers that enqueue a task and end when they have completed it.
var unanswered = map[string]string{"python": `import asyncio, os
from dbq_client import Client, Worker

client = Client("mail", os.environ["URL"])
[added] = client.enqueue({"reference": "once"})
assert "duplicate" not in added, "it is a duplicate of itself"
worker = Worker(client, lease_seconds=3, wait_seconds=1)

@worker.task("")
async def handle(task):
    worker.stop()

asyncio.run(worker.run_async())
`, "node": `import { Client, Worker } from 'dbq-client'
const client = new Client('mail', { url: process.env.URL })
const [added] = await client.enqueue([{ reference: 'once' }])
if ('duplicate' in added) throw new Error('it is a duplicate of itself')
const worker = new Worker(client, { leaseSeconds: 3, waitSeconds: 1 })
worker.handle('', () => worker.stop())
await worker.run({ signals: [] })
`}

// TestClientsRepeatUnansweredCalls loses the response to the first enqueue and to the first settlement without a
// reset, as a firewall does that forgets a connection. Both calls were once repeated after 90 seconds or never.
func TestClientsRepeatUnansweredCalls(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		if l.source = unanswered[l.name]; l.source == "" {
			return // package client has tests of its own
		}
		u := newUser(t)
		at, err := url.Parse(u.serve().url)
		if err != nil {
			t.Fatal(err)
		}
		var lost sync.Map
		server := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }}
		link := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			call := r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]
			if _, again := lost.LoadOrStore(call, true); again || (call != "/batch" && call != "/settle") {
				server.ServeHTTP(w, r)
				return
			}
			server.ServeHTTP(httptest.NewRecorder(), r) // the request is carried out
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		t.Cleanup(link.Close)
		if o := u.client(l, link.URL).wait(); o.code != 0 {
			t.Fatalf("it ended with %d: %s", o.code, o.err)
		}
		if got := u.run("list", "--queue", "mail", "--json").one(); got["state"] != "COMPLETED" || got["attempt"] != 1.0 {
			t.Errorf("%v, want one task that its first attempt completed", got)
		}
	})
}
