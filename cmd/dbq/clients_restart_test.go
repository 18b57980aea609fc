//go:build unix

package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// TestClientsLoseNothingWhenTheirDatabaseIsKilled enqueues and works with all clients while the database server of
// `dbq serve` is restarted, killed, and started again. ci/restarts.sh sets the variables.
func TestClientsLoseNothingWhenTheirDatabaseIsKilled(t *testing.T) {
	at, commands := os.Getenv("DBQ_TEST_RESTART_DSN"), os.Getenv("DBQ_TEST_RESTART")
	if at == "" || commands == "" {
		t.Skip("set DBQ_TEST_RESTART_DSN and DBQ_TEST_RESTART, the commands that restart this server")
	}
	u := newUser(t)
	texts := append(slices.Repeat([]string{"short", "short", "short", "retry"}, 50), "long")
	var runs []clientRun
	for _, l := range languages {
		_, err := l.install()
		check.OK(t, err)
		mine := *u // with a directory of its own
		mine.dir = t.TempDir()
		r := clientRun{language: l, u: &mine}
		r.dsn, _ = ownDatabaseOn(t, at)
		r.server = mine.serveRestartable(r.dsn)
		mine.write("seen", "") // a handler of "long" does not wait for the test
		r.workers = []*background{mine.client(l, r.server.url), mine.client(l, r.server.url)}
		r.producer = mine.client(l, r.server.url, texts...)
		runs = append(runs, r)
	}
	for command := range strings.SplitSeq(commands, ";") {
		time.Sleep(time.Second)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out) // without a server the producers would try for ever
		}
	}
	for _, r := range runs {
		r.ends(t, 2*len(texts))
	}
}

// clientRun are the processes of one language and their server.
type clientRun struct {
	language
	u        *user
	dsn      string
	server   *restartable
	workers  []*background
	producer *background
}

// ends waits until n tasks are completed, and checks that each was completed once.
func (r clientRun) ends(t *testing.T, n int) {
	t.Helper()
	if o := r.producer.wait(); o.code != 0 {
		t.Fatalf("the producer in %s ended with %d: %s", r.name, o.code, o.err)
	}
	c, err := dbq.Open(t.Context(), r.dsn)
	check.OK(t, err)
	defer c.Close()
	check.Eventually(t, "all tasks of "+r.name+" are completed", func() bool {
		completed, others := r.server.count(c)
		return completed == int64(n) && others == 0
	})
	for _, w := range r.workers {
		w.stops()
	}
	r.u.eachEndedOnce(c, n)
}
