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
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/querycount"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// The schemes are SQLite with a count of the statements that read. Nothing but the tests of the cost uses them.
const (
	overviewScheme = "console-counted-overview"
	stepScheme     = "console-counted-step"
	preparedScheme = "console-counted-prepared"
)

var countedReads = map[string]*atomic.Int64{overviewScheme: {}, stepScheme: {}, preparedScheme: {}}

func init() {
	for scheme, reads := range countedReads {
		open := func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			pool, err := sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, scheme), nil)
			if err == nil {
				pool.Read = querycount.Wrap(pool.Read, reads)
			}
			return pool, err
		}
		dialect.Register(dialect.Driver{Schemes: []string{scheme}, Dialect: sqlite.Dialect{}, Open: open, File: true})
	}
}

// counted opens a database, and returns the count of its statements that read.
func counted(t *testing.T, scheme string) (*dbq.Client, *atomic.Int64) {
	t.Helper()
	client, err := dbq.Open(t.Context(), scheme+":"+filepath.Join(t.TempDir(), "cost.db"), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { client.Close() })
	return client, countedReads[scheme]
}

// TestPreparedOverviewReadsNothing: the first visitor gets what Prepare has read.
func TestPreparedOverviewReadsNothing(t *testing.T) {
	t.Parallel()
	client, reads := counted(t, preparedScheme)
	if _, err := client.Queue("mail").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	handler, err := console.New(console.Config{Databases: map[string]*dbq.Client{"shop": client}, Authenticator: ann})
	check.OK(t, err)
	handler.Prepare(t.Context())
	before := reads.Load()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/db/shop/", nil))
	if page := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(page, ">mail</a>") {
		t.Errorf("the overview is %d %s", w.Code, page)
	}
	if n := reads.Load() - before; before == 0 || n != 0 {
		t.Errorf("Prepare took %d statements, and the first visit %d; want some, and none", before, n)
	}
}

// TestOpenOverviewCostsLessThanAStatementASecond has 100 queues and several browsers, each of which requests the
// overview more often than a browser does. The signed-in user is one of them all: each further one costs a statement in
// 10 seconds.
func TestOpenOverviewCostsLessThanAStatementASecond(t *testing.T) {
	t.Parallel()
	client, reads := counted(t, overviewScheme)
	for i := range 100 {
		queue := fmt.Sprintf("q%02d", i)
		if _, err := client.Queue(queue).Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Fatal(err)
		}
	}
	limit := func(l *admin.QueueLimits) { l.Concurrency = 7 }
	check.OK(t, admin.New(client).ConfigureLimits(t.Context(), "q42", limit))
	tokens := auth.NewTokens(client)
	secret, _, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann", Role: auth.Viewer})
	check.OK(t, err)
	handler, err := console.New(console.Config{Databases: map[string]*dbq.Client{"shop": client}, Authenticator: tokens})
	check.OK(t, err)
	look := func() string {
		r := httptest.NewRequest(http.MethodGet, "/db/shop/", nil)
		r.AddCookie(&http.Cookie{Name: "dbq_session", Value: "1." + secret})
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
	reads.Store(0)
	var browsers sync.WaitGroup
	for range 5 {
		browsers.Go(func() {
			for end := time.Now().Add(over); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
				look()
			}
		})
	}
	browsers.Wait()
	if n := reads.Load(); n >= int64(over/time.Second) {
		t.Errorf("%d statements in %v, want fewer than one a second", n, over)
	}
}

// TestOpenStepDoesNotReadItsWorkflowEachTime refreshes the page of a step, and then changes the step and another one.
func TestOpenStepDoesNotReadItsWorkflowEachTime(t *testing.T) {
	t.Parallel()
	client, reads := counted(t, stepScheme)
	s := serve(t, client, ann, "")
	look := func(id uuid.UUID) (page string, cost int64) {
		reads.Store(0)
		page = s.live(s.get(200, "/db/shop/task/"+id.String()))
		return page, reads.Load()
	}
	q := client.Queue("mail")
	alone := s.enqueue("other", dbq.NewTask{})
	w, err := workflow.Enqueue(t.Context(), client, []workflow.Step{
		{Name: "charge", Queue: "mail"}, {Name: "ship", Queue: "mail", Needs: []string{"charge"}},
	})
	check.OK(t, err)
	charge, ship := w.TaskIDs[0], w.TaskIDs[1]
	look(alone.ID) // its next visitors share the reason why it waits
	_, plain := look(alone.ID)
	_, first := look(charge)
	if first < plain+2 {
		t.Fatalf("the first page of a step costs %d statements, and that of a task in no workflow %d", first, plain)
	}
	for range 3 {
		page, cost := look(charge)
		if s.shows(page, "<title>charge: ", "<title>ship: CREATED, waits for 1<"); cost != plain+1 {
			t.Errorf("a refresh costs %d statements, want %d: those of a task, and one for its step", cost, plain+1)
		}
	}
	if _, cost := look(ship); cost != plain+1 {
		t.Errorf("the page of another step costs %d statements, want %d", cost, plain+1)
	}

	leased, err := q.Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(leased) != 1 {
		t.Fatalf("%d tasks are leased: %v", len(leased), err)
	}
	page, _ := look(charge)
	s.shows(page, "<title>charge: PROCESSING</title>")
	check.OK(t, q.Settle(t.Context(), leased[0].Lease, dbq.Completed(nil)))
	page, _ = look(charge)
	s.shows(page, "<title>charge: COMPLETED</title>", "<title>ship: CREATED</title>")
	page, _ = look(ship)
	s.shows(page, "<title>ship: CREATED</title>")
	s.post(303, "/db/shop/task/"+ship.String()+"/cancel")
	page, _ = look(charge) // a change in the console is shown at once
	s.shows(page, "<title>ship: POISON, cancelled</title>")
}

// as reads a page with the session of a token.
func (s *site) as(status int, token, path string) string {
	s.t.Helper()
	return s.do(status, http.MethodGet, path, "", "Cookie", "dbq_session=1."+token)
}

// TestRevokedSessionReadsForTenSecondsAndChangesNothing revokes the token of an open page.
func TestRevokedSessionReadsForTenSecondsAndChangesNothing(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	tokens := auth.NewTokens(client)
	secret, made, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann", Role: auth.Admin})
	check.OK(t, err)
	s := serve(t, client, tokens, "")
	s.as(200, secret, "/db/shop/")
	check.OK(t, tokens.Revoke(t.Context(), made.ID))
	s.do(303, http.MethodPost, "/db/shop/queue/pause", "queue=mail", "Cookie", "dbq_session=1."+secret,
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
		return s.do(200, http.MethodGet, "/db/shop/tasks", "", "Cookie", "dbq_session=1.garbage", "X-User", user)
	}
	s.shows(as("ann"), "ann")
	s.shows(as("bob"), "bob")
	s.hides(as("bob"), ">ann<", "Enqueue a task")
	s.post(401, "/login", "token", "garbage")
}
