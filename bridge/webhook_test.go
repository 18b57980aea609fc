package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// serve starts a server for a test.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// local is an endpoint on this machine.
func local(url string, secrets ...bridge.Secret) bridge.Endpoint {
	if secrets == nil {
		secrets = []bridge.Secret{bridge.NewSecret()}
	}
	return bridge.Endpoint{URL: url, Secrets: secrets, Networks: loopback, PlainHTTP: true}
}

func newWebhook(t testing.TB, cfg bridge.WebhookConfig) *bridge.Webhook {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	hook, err := bridge.NewWebhook(cfg)
	check.OK(t, err)
	return hook
}

func TestWebhookSendsTheTask(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	var got *http.Request
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(strings.Repeat("x", 5000)))
	})
	e := local(s.URL + "/hook?token=t")
	e.Header = http.Header{"authorization": {"Bearer b"}, "webhook-id": {"forged"}}
	id, err := db.Queue("q").Enqueue(t.Context(), dbq.NewTask{
		Kind: "order.paid", Payload: []byte(`{"order":42}`),
		Headers: map[string]string{"traceparent": "00-a-b-01", "baggage": "k=v\r\nEvil: 1", "tag": "not sent"},
	})
	check.OK(t, err)
	done := db.Run(newWebhook(t, bridge.WebhookConfig{Endpoint: e}).Worker(db.Queue("q")))
	if len(done) != 1 || done[0].State != dbq.StateCompleted || len(done[0].Result) != dbq.MaxResult {
		t.Fatalf("got %+v, want one COMPLETED task with a result that is cut", done)
	}
	if got.Method != "POST" || got.URL.String() != "/hook?token=t" || string(body) != `{"order":42}` {
		t.Errorf("the request is %s %s with %s", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"Webhook-Id": id.String(), "Dbq-Kind": "order.paid", "Dbq-Queue": "q", "Dbq-Attempt": "1",
		"Content-Type": "application/json", "Traceparent": "00-a-b-01", "Authorization": "Bearer b", "Baggage": "", "Tag": "",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) func() string {
		return func() string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	}
	text := func(s string) func() string { return func() string { return s } }
	for name, c := range map[string]struct {
		status     int
		retryAfter func() string
		state      dbq.State
		least      time.Duration // until the retry; 0 is parked or ended
		most       time.Duration
	}{
		"204":           {204, nil, dbq.StateCompleted, 0, 0},
		"redirect":      {302, nil, dbq.StateError, 0, 0},
		"400":           {400, nil, dbq.StateError, 0, 0},
		"408":           {408, nil, dbq.StateError, 1, 2 * time.Second},
		"409, by rule":  {409, nil, dbq.StateCompleted, 0, 0},
		"422, by rule":  {422, nil, dbq.StatePoison, 0, 0},
		"429":           {429, nil, dbq.StateError, 1, 2 * time.Second},
		"429, seconds":  {429, text("120"), dbq.StateError, 100 * time.Second, 2 * time.Minute},
		"503, a date":   {503, in(10 * time.Minute), dbq.StateError, 9 * time.Minute, 10 * time.Minute},
		"503, the past": {503, in(-time.Hour), dbq.StateError, 1, 2 * time.Second},
		"503, for ever": {503, text("99999999999999999"), dbq.StateError, 50 * time.Minute, time.Hour},
		"503, nonsense": {503, text("-5"), dbq.StateError, 1, 2 * time.Second},
		"500":           {500, nil, dbq.StateError, 1, 2 * time.Second},
		"501, by rule":  {501, text("5"), dbq.StateError, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbqtest.New(t)
			elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", elsewhere.URL)
				if c.retryAfter != nil {
					w.Header().Set("Retry-After", c.retryAfter())
				}
				w.WriteHeader(c.status)
				if c.status != 204 {
					_, _ = w.Write([]byte("because\xff"))
				}
			})
			_, err := db.Queue("q").Enqueue(t.Context(), dbq.NewTask{})
			check.OK(t, err)
			hook := newWebhook(t, bridge.WebhookConfig{Endpoint: local(s.URL + "/path-token"), OnStatus: map[int]bridge.Action{
				409: bridge.Complete, 422: bridge.Poison, 501: bridge.Park,
			}})
			task, found := db.Step(hook.Worker(db.Queue("q")))
			now, err := db.Now(t.Context())
			check.OK(t, err)
			if !found || task.State != c.state || task.Attempt != 1 {
				t.Fatalf("got %+v", task)
			}
			if wait := task.Due.Sub(now); task.State == dbq.StateError && task.Due.IsZero() != (c.least == 0) ||
				c.least > 0 && (wait < c.least-time.Second || wait > c.most) {
				t.Errorf("it is due in %v, want %v to %v", wait, c.least, c.most)
			}
			if result := string(task.Result); c.status != 204 && !strings.Contains(result, "because") ||
				strings.Contains(result, "path-token") {
				t.Errorf("the result is %q", result)
			}
		})
	}
}

func TestWebhookPausesTheQueueOnRequest(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	_, err := db.Queue("q").EnqueueMany(t.Context(), make([]dbq.NewTask, 3))
	check.OK(t, err)
	hook := newWebhook(t, bridge.WebhookConfig{
		Endpoint: local(s.URL), OnStatus: map[int]bridge.Action{410: bridge.PauseQueue},
	})
	if done := db.Run(hook.Worker(db.Queue("q"))); len(done) != 1 {
		t.Errorf("%d tasks were sent, want 1", len(done))
	}
	db.WantTasks("q", dbq.StateCreated, 3)
	queues, err := admin.New(db.Client).Queues(t.Context())
	check.OK(t, err)
	if len(queues) != 1 || !queues[0].Paused || !strings.Contains(queues[0].Reason, "410 Gone") {
		t.Errorf("the queues are %+v", queues)
	}
}

// TestBreakerKeepsAttempts makes an endpoint fail and then return, with more tasks than the breaker lets through.
func TestBreakerKeepsAttempts(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	const tasks, failures = 30, 3
	var requests atomic.Int64
	var up atomic.Bool
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	for range tasks {
		_, err := db.Queue("q").Enqueue(t.Context(), dbq.NewTask{MaxAttempts: 100})
		check.OK(t, err)
	}
	e := local(s.URL)
	e.MaxFailures, e.Pause = failures, 300*time.Millisecond
	w := newWebhook(t, bridge.WebhookConfig{Endpoint: e}).Worker(db.Queue("q"))
	w.Concurrency, w.PollMax = 2, 20*time.Millisecond
	w.Logger = slog.New(slog.DiscardHandler)
	w.Backoff = func(int) time.Duration { return 50 * time.Millisecond }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for end := time.Now().Add(10 * time.Second); requests.Load() < failures && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Second)
	if n := requests.Load(); n < failures || n > failures+2+8 {
		t.Errorf("%d requests in a second of failures, want few", n)
	}
	up.Store(true)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if len(db.Tasks("q", dbq.StateCompleted)) == tasks {
			break
		}
	}
	cancel()
	check.OK(t, <-ended)
	db.WantTasks("q", dbq.StateCompleted, tasks)
}

// TestNothingSecretIsShown plants secrets in all parts of a configuration and makes requests fail in every way.
func TestNothingSecretIsShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	db := dbqtest.New(t, dbq.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	broken := serve(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	refusing := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	secret := bridge.NewSecret()
	for i, e := range []bridge.Endpoint{
		local(slow.URL+"/planted", secret), local(broken.URL+"/planted", secret), local(refusing.URL+"/planted", secret),
		{URL: slow.URL + "/planted", Secrets: []bridge.Secret{secret}, PlainHTTP: true}, // refused: loopback
	} {
		q := db.Queue([]string{"slow", "broken", "refusing", "private"}[i])
		_, err := q.Enqueue(t.Context(), dbq.NewTask{Payload: []byte("planted")})
		check.OK(t, err)
		e.URL += "?key=planted"
		e.Header = http.Header{"Authorization": {"planted"}}
		e.Timeout = 300 * time.Millisecond
		task, _ := db.Step(newWebhook(t, bridge.WebhookConfig{Endpoint: e}).Worker(q))
		text := string(task.Result) + log.String()
		if task.State != dbq.StateError || len(task.Result) == 0 ||
			strings.Contains(text, "planted") || strings.Contains(text, secret.Reveal()[6:]) {
			t.Errorf("%s: %v %s; the log is %s", q.Name(), task.State, task.Result, &log)
		}
		if q.Name() == "private" && !strings.Contains(text, "not public") {
			t.Errorf("the error is %q", task.Result)
		}
	}
	for _, e := range []bridge.Endpoint{
		{}, {URL: "https://ok.example"}, {URL: "http://planted.example"}, {URL: "https://planted:planted@shop.example/"},
		{URL: "https://shop.example/planted", Hosts: []string{"hooks.example"}}, {URL: "planted%zz"},
		{URL: "file:///planted"},
		{URL: "https://shop.example:444/planted", Hosts: []string{"shop.example"}},
		{URL: "https://evilshop.example/planted", Hosts: []string{"*.shop.example", "*shop.example"}},
		{URL: "https://shop.example", MaxFailures: -1},
	} {
		if e.URL != "https://ok.example" {
			e.Secrets = []bridge.Secret{secret}
		}
		_, err := bridge.NewWebhook(bridge.WebhookConfig{Endpoint: e})
		if !errors.Is(err, bridge.ErrConfig) || !errors.Is(err, dbq.ErrInvalid) {
			t.Errorf("%q: %v", e.URL, err)
		} else if text := strings.ReplaceAll(err.Error(), "planted.example", ""); strings.Contains(text, "planted") {
			t.Errorf("%q: %v", e.URL, err)
		}
	}
	for _, hosts := range [][]string{nil, {"Hooks.Example"}, {"*.example"}, {"hooks.example:8443", "hooks.example"}} {
		e := bridge.Endpoint{URL: "https://hooks.example:443/x", Hosts: hosts, Secrets: []bridge.Secret{secret}}
		if _, err := bridge.NewWebhook(bridge.WebhookConfig{Endpoint: e}); err != nil {
			t.Error(err)
		}
	}
}
