//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// TestClientsAreListedWithWhatTheyHold starts a worker of each client, and lists the workers as an operator does.
func TestClientsAreListedWithWhatTheyHold(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		u := newUser(t)
		dsn, _ := ownDatabase(t, "sqlite")
		server := u.serveRestartable(dsn)
		w := u.client(l, server.url)
		if o := u.client(l, server.url, "long").wait(); o.code != 0 { // its handler waits for the file "seen"
			t.Fatal(o.err)
		}
		listed := func(holding, done float64) (id string) {
			t.Helper()
			what := fmt.Sprintf("the list has a worker that holds %v tasks and has done %v", holding, done)
			check.Eventually(t, what, func() bool {
				for _, w := range u.run("worker", "list", "--dsn", dsn, "--json").jsonLines() {
					if w["queue"] == "mail" && w["remote"] == true && w["holding"] == holding && w["done"] == done {
						id = w["id"].(string)
					}
				}
				return id != ""
			})
			return id
		}
		id := listed(2, 0)
		if !strings.HasPrefix(id, "http/mail/") {
			t.Errorf("the worker is listed as %q", id)
		}
		u.run("worker", "stop", id, "--dsn", dsn).fails(exitUsage, "works over HTTP")
		u.write("seen", "")
		if again := listed(0, 2); again != id {
			t.Errorf("the worker is listed as %q, and then as %q", id, again)
		}
		w.stops()
	})
}
