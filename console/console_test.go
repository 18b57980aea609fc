package console_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// user authenticates every request as one principal.
type user struct{ auth.Principal }

func (u user) Authenticate(*http.Request) (auth.Principal, error) { return u.Principal, nil }

var ann = user{auth.Principal{Name: "ann", Role: auth.Admin, Payloads: true}}

// site is a console on a database, as a test uses it.
type site struct {
	t      *testing.T
	client *dbq.Client
	url    string
	http   *http.Client
}

func serve(t *testing.T, client *dbq.Client, a auth.Authenticator, prefix string) *site {
	t.Helper()
	return serveWith(t, console.Config{
		Databases: map[string]*dbq.Client{"shop": client}, Authenticator: a, Prefix: prefix,
	})
}

func serveWith(t *testing.T, cfg console.Config) *site {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := console.New(cfg)
	check.OK(t, err)
	c.WaitForCounts()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	browser := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}
	return &site{t, cfg.Databases["shop"], server.URL + cfg.Prefix, browser}
}

// get reads a page, and fails unless it has the status.
func (s *site) get(status int, path string, query ...string) string {
	s.t.Helper()
	answer, err := s.http.Get(s.url + path + encode(query, "?"))
	return s.body(status, answer, err)
}

// post submits a form, fails unless it has the status, and returns the page or where the answer leads.
func (s *site) post(status int, path string, form ...string) string {
	s.t.Helper()
	answer, err := s.http.Post(s.url+path, "application/x-www-form-urlencoded", strings.NewReader(encode(form, "")))
	body := s.body(status, answer, err)
	if status == http.StatusSeeOther {
		return answer.Header.Get("Location")
	}
	return body
}

func encode(pairs []string, before string) string {
	if len(pairs) == 0 {
		return ""
	}
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return before + v.Encode()
}

// inlined matches what the content security policy forbids: scripts, styles and handlers within a page.
var inlined = regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:`)

func (s *site) body(status int, answer *http.Response, err error) string {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	page := string(b)
	if answer.StatusCode != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", answer.Request.Method, answer.Request.URL.Path, answer.StatusCode, status, page)
	}
	if !strings.Contains(answer.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		s.t.Errorf("%s has no content security policy", answer.Request.URL.Path)
	}
	if found := inlined.FindString(page); found != "" {
		s.t.Errorf("%s has %q, which its policy forbids", answer.Request.URL.Path, found)
	}
	return page
}

// shows fails unless a page has all texts.
func (s *site) shows(page string, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			s.t.Errorf("the page lacks %q: %s", text, page)
		}
	}
}

// hides fails if a page has one of the texts.
func (s *site) hides(page string, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(page, text) {
			s.t.Errorf("the page shows %q: %s", text, page)
		}
	}
}

func (s *site) enqueue(queue string, t dbq.NewTask) dbq.Task {
	s.t.Helper()
	done, err := s.client.Queue(queue).EnqueueMany(s.t.Context(), []dbq.NewTask{t})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.task(done[0])
}

func (s *site) task(e dbq.Enqueued) dbq.Task {
	s.t.Helper()
	t, err := s.client.Get(s.t.Context(), e.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

func taskPath(t dbq.Task) string { return "/db/shop/task/" + t.ID.String() }

func TestViewerSeesNoPayloadAndCannotAct(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	s := serve(t, client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	task := s.enqueue("mail", dbq.NewTask{
		Payload: []byte("planted-secret"), Headers: map[string]string{"h": "planted-secret"},
	})
	other := s.enqueue("bills", dbq.NewTask{})
	page := s.get(200, taskPath(task))
	s.shows(page, "Your role does not show payloads")
	s.hides(page, "planted-secret", taskPath(task)+"/", "Edit and enqueue")
	s.get(404, taskPath(other))
	s.hides(s.get(200, "/db/shop/"), "bills")
	for _, path := range []string{"/db/shop/tasks", "/db/shop/audit", "/db/shop/queue?queue=bills",
		"/db/shop/enqueue?from=" + task.ID.String(), taskPath(task) + "/cancel", "/db/shop/bulk?queue=mail&event=cancel",
		"/db/shop/enqueue?queue=mail"} {
		s.hides(s.get(403, path), "planted-secret")
	}
	for _, path := range []string{taskPath(task) + "/cancel", "/db/shop/queue/pause", "/db/shop/queue/limits",
		"/db/shop/queue/settings", "/db/shop/bulk?event=cancel", "/db/shop/enqueue",
		"/db/shop/workflow/" + task.ID.String() + "/cancel"} {
		s.post(403, path, "queue", "mail")
	}
	if got := s.task(dbq.Enqueued{ID: task.ID}); got.State != dbq.StateCreated {
		t.Errorf("the task is %s, want CREATED", got.State)
	}
}

func TestSignInKeepsTheTokenInACookie(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	tokens := auth.NewTokens(client)
	token, _, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann", Role: auth.Operator})
	check.OK(t, err)
	s := serve(t, client, tokens, "/dbq")
	to := s.redirect("/db/shop/tasks?queue=mail")
	if to != "/dbq/login?to=%2Fdb%2Fshop%2Ftasks%3Fqueue%3Dmail" {
		t.Fatalf("without a session, a page leads to %q", to)
	}
	s.get(200, "/login")
	s.shows(s.post(401, "/login", "token", "wrong"), "not valid")
	answer, err := s.http.PostForm(s.url+"/login", url.Values{"token": {token}, "to": {"//evil.example/"}})
	check.OK(t, err)
	answer.Body.Close()
	cookies := answer.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("the session's cookies are %v", cookies)
	}
	if got := answer.Header.Get("Location"); got != "/dbq/" {
		t.Errorf("signing in leads to %q, want this console", got)
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/db/shop/", nil)
	check.OK(t, err)
	r.AddCookie(cookies[0])
	page, err := s.http.Do(r)
	s.shows(s.body(200, page, err), "Sign out", "token:ann")

	// A page of another site cannot use the session.
	r, err = http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+"/db/shop/queue/pause",
		strings.NewReader("queue=mail"))
	check.OK(t, err)
	r.AddCookie(cookies[0])
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	page, err = s.http.Do(r)
	s.body(403, page, err)
}

func (s *site) redirect(path string) string {
	s.t.Helper()
	answer, err := s.http.Get(s.url + path)
	s.body(http.StatusSeeOther, answer, err)
	return answer.Header.Get("Location")
}

func TestDatabaseThatIsGoneIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.client.Close()
	page := s.get(503, "/db/shop/tasks")
	s.shows(page, "The server is stopping")
	s.hides(page, "goroutine", "sql:")
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	for _, cfg := range []console.Config{
		{}, {Authenticator: ann}, {Authenticator: ann, Databases: map[string]*dbq.Client{"Shop": client}},
		{Authenticator: ann, Databases: map[string]*dbq.Client{"shop": nil}},
		{Authenticator: ann, Databases: map[string]*dbq.Client{"shop": client}, Prefix: "dbq/"},
		{Authenticator: ann, Databases: map[string]*dbq.Client{"shop": client}, Timeout: -1},
		{Authenticator: ann, Databases: map[string]*dbq.Client{"shop": client}, MaxRequests: -1},
		{Authenticator: ann, Databases: map[string]*dbq.Client{"shop": client}, CallerRate: -1},
	} {
		if _, err := console.New(cfg); !errors.Is(err, dbq.ErrOption) {
			t.Errorf("%+v: %v, want ErrOption", cfg, err)
		}
	}
}
