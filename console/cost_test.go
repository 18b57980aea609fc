package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/querycount"
)

// countedScheme is SQLite with a count of the statements that read. Nothing but the test of the cost uses it.
const countedScheme = "console-counted"

var countedReads atomic.Int64

func init() {
	open := func(ctx context.Context, dsn string) (dialect.Pool, error) {
		pool, err := sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, countedScheme))
		if err == nil {
			pool.Read = querycount.Wrap(pool.Read, &countedReads)
		}
		return pool, err
	}
	dialect.Register(dialect.Driver{Schemes: []string{countedScheme}, Dialect: sqlite.Dialect{}, Open: open, File: true})
}

// TestOpenOverviewCostsLessThanAStatementASecond has 100 queues and several browsers, each of which asks for the
// overview more often than a browser does. The signed-in user is one of them all: each further one costs a statement in
// 10 seconds.
func TestOpenOverviewCostsLessThanAStatementASecond(t *testing.T) {
	t.Parallel()
	client, err := dbq.Open(t.Context(), countedScheme+":"+filepath.Join(t.TempDir(), "cost.db"), dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	for i := range 100 {
		queue := fmt.Sprintf("q%02d", i)
		if _, err := client.Queue(queue).Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Fatal(err)
		}
	}
	limit := func(l *admin.QueueLimits) { l.Leased = 7 }
	if err := admin.New(client).ConfigureLimits(t.Context(), "q42", limit); err != nil {
		t.Fatal(err)
	}
	tokens := auth.NewTokens(client)
	secret, _, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann", Role: auth.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := console.New(console.Config{Databases: map[string]*dbq.Client{"shop": client}, Authenticator: tokens})
	if err != nil {
		t.Fatal(err)
	}
	look := func() string {
		r := httptest.NewRequest(http.MethodGet, "/db/shop/", nil)
		r.AddCookie(&http.Cookie{Name: "dbq_session", Value: secret})
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("a browser gets %d", w.Code)
		}
		return w.Body.String()
	}
	if page := look(); !strings.Contains(page, "q00") || !strings.Contains(page, "q99") {
		t.Fatalf("the overview lacks queues: %s", page)
	}
	const over = 15 * time.Second
	countedReads.Store(0)
	var browsers sync.WaitGroup
	for range 5 {
		browsers.Go(func() {
			for end := time.Now().Add(over); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
				look()
			}
		})
	}
	browsers.Wait()
	if n := countedReads.Load(); n >= int64(over/time.Second) {
		t.Errorf("%d statements in %v, want fewer than one a second", n, over)
	}
}

// as reads a page with the session of a token.
func (s *site) as(status int, token, path string) string {
	s.t.Helper()
	return s.do(status, http.MethodGet, path, "", "Cookie", "dbq_session="+token)
}

// TestRevokedSessionReadsForTenSecondsAndChangesNothing revokes the token of an open page.
func TestRevokedSessionReadsForTenSecondsAndChangesNothing(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	tokens := auth.NewTokens(client)
	secret, made, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann", Role: auth.Admin})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, client, tokens, "")
	s.as(200, secret, "/db/shop/")
	if err := tokens.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	s.do(303, http.MethodPost, "/db/shop/queue/pause", "queue=mail", "Cookie", "dbq_session="+secret,
		"Content-Type", formType)
	if paused, err := admin.New(client).Queues(t.Context()); err != nil || len(paused) != 0 {
		t.Errorf("a revoked token has changed %v: %v", paused, err)
	}
	time.Sleep(10*time.Second + 10*time.Millisecond)
	s.as(303, secret, "/db/shop/")
}

// TestSessionDoesNotKeepTheUserOfAProxy: behind a proxy that names the user in a header, two users send the same
// cookie, which is nobody's token.
func TestSessionDoesNotKeepTheUserOfAProxy(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	proxy := auth.Proxy{From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, UserHeader: "X-User",
		Rules: auth.Rules{{User: "ann", Role: auth.Admin}, {User: "bob", Role: auth.Viewer}}}
	s := serve(t, client, auth.Chain{auth.NewTokens(client), proxy}, "")
	as := func(user string) string {
		return s.do(200, http.MethodGet, "/db/shop/tasks", "", "Cookie", "dbq_session=garbage", "X-User", user)
	}
	s.shows(as("ann"), "ann")
	s.shows(as("bob"), "bob")
	s.hides(as("bob"), ">ann<", "Enqueue a task")
	s.post(401, "/login", "token", "garbage")
}
