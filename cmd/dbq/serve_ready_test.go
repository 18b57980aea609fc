//go:build unix

package main

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
)

// twoDatabases returns a server of the databases log and shop, and the pool of shop, which has one connection.
func twoDatabases(t *testing.T, l *slog.Logger) (s *server, shop *sql.DB) {
	t.Helper()
	s = &server{clients: map[string]*dbq.Client{}, logger: l}
	for _, name := range []string{"log", "shop"} {
		p, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), name+".db"), nil)
		check.OK(t, err)
		t.Cleanup(func() { p.Close() })
		shop = p.Write
		shop.SetMaxOpenConns(1)
		c, err := dbq.New(t.Context(), shop, sqlite.Dialect{}, dbq.WithMigrate())
		check.OK(t, err)
		s.clients[name] = c
	}
	t.Cleanup(s.close)
	return s, shop
}

// TestReadyDoesNotWaitForTheDatabaseThatIsAway queries a server with two databases, one of which does not answer: it is
// ready while the other query still runs.
func TestReadyDoesNotWaitForTheDatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	s, shop := twoDatabases(t, slog.New(slog.DiscardHandler))
	conn, err := shop.Conn(context.WithoutCancel(t.Context())) // the only one
	check.OK(t, err)
	defer conn.Close()
	for range 3 {
		w := httptest.NewRecorder()
		s.readyz(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != http.StatusOK {
			t.Errorf("it answers %d", w.Code)
		}
	}
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	if a := s.ready.databases["shop"]; a != nil && !a.checking {
		t.Error("it has waited for the database that is away")
	}
}

// TestReadinessIsThatOfEachDatabase takes one of two databases away, and brings it back.
func TestReadinessIsThatOfEachDatabase(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	s, pool := twoDatabases(t, slog.New(slog.NewTextHandler(&logged, nil)))
	of := func(database string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/readyz", nil)
		r.SetPathValue("database", database)
		s.readyz(w, r)
		return w.Code
	}
	ready := func() int {
		if log, all := of("log"), of(""); log != all || of("none") != http.StatusServiceUnavailable {
			t.Errorf("the other database: %d, all: %d", log, all)
		}
		return of("shop")
	}
	becomes := func(want int) {
		t.Helper()
		got, begin := 0, time.Now()
		for ; got != want && time.Since(begin) < 4*(readyFor+readyTimeout); time.Sleep(50 * time.Millisecond) {
			got = ready()
		}
		if got != want {
			t.Errorf("it answers %d, want %d", got, want)
		}
	}
	becomes(http.StatusOK)
	conn, err := pool.Conn(context.WithoutCancel(t.Context())) // the only one: the database does not answer
	check.OK(t, err)
	becomes(http.StatusServiceUnavailable)
	s.ready.checking.Wait()
	if text := logged.String(); !strings.Contains(text, "database=shop") || strings.Contains(text, "database=log") {
		t.Errorf("the log does not name the database that is away: %s", text)
	}
	conn.Close()
	becomes(http.StatusOK)
	s.stopping.Store(true)
	if got := ready(); got != http.StatusServiceUnavailable {
		t.Errorf("while the server stops it answers %d", got)
	}
}

// TestServeDrains stops a server while a checkout waits for tasks, and while the body of another request arrives: both
// are answered, a new connection is refused, and the task is stored.
func TestServeDrains(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	s := u.serve("--dsn", "a.db", "--drain", "20s")
	begin := time.Now()
	waits := s.slowly(t, "/queues/mail/checkout", `{"wait_seconds": 60}`)
	waits.send(t, waits.rest)
	sends := s.slowly(t, "/queues/other/tasks", `{"payload": "kept"}`)
	sends.send(t, sends.rest[:5])
	time.Sleep(500 * time.Millisecond) // both are handled; most likely the checkout waits by now, and it must end anyway
	s.stop()
	if status, body := waits.answer(t); status != 200 || !strings.Contains(body, `"tasks":[]`) {
		t.Errorf("the checkout that waited: %d %s", status, body)
	}
	if r, err := http.Get(s.url + "/healthz"); err == nil {
		r.Body.Close()
		t.Error("a server that stops accepts a new connection")
	}
	sends.send(t, sends.rest[5:])
	if status, body := sends.answer(t); status != 201 {
		t.Errorf("the request that was running: %d %s", status, body)
	}
	s.wait().ok()
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v to stop, although nothing was running any more", took)
	}
	u.run("list", "--dsn", "a.db", "--queue", "other").has("CREATED")
}
