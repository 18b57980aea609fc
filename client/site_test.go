package client_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/client"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// secret is the token of the tests. No error and no log may contain it.
const secret = "dbq_plantedtoken"

// byToken authenticates the callers that send the secret.
type byToken struct{}

func (byToken) Authenticate(r *http.Request) (auth.Principal, error) {
	if r.Header.Get("Authorization") != "Bearer "+secret {
		return auth.Principal{}, auth.ErrUnauthenticated
	}
	return auth.Principal{Name: "w", Role: auth.Trigger, Payloads: true}, nil
}

// site is a server on a database in memory, and a client of it.
type site struct {
	*testing.T
	db     *dbq.Client
	api    *api.API
	client *client.Client
	log    *buffer
	// through is a middleware of the server that a test may change.
	through atomic.Pointer[func(next http.Handler) http.Handler]
}

func newSite(t *testing.T, change ...func(*client.Config)) *site {
	t.Helper()
	db, err := dbq.Open(t.Context(), "sqlite::memory:", dbq.WithMigrate())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	s := &site{T: t, db: db, log: &buffer{}}
	s.api, err = api.New(api.Config{
		Databases: map[string]*dbq.Client{"default": db}, Authenticator: byToken{}, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	server := httptest.NewServer(http.StripPrefix("/dbq", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.through.Load(); f != nil {
			(*f)(s.api).ServeHTTP(w, r)
			return
		}
		s.api.ServeHTTP(w, r)
	})))
	t.Cleanup(func() {
		s.api.Drain()
		server.CloseClientConnections()
		server.Close()
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has the token:\n%s", s.log)
		}
	})
	cfg := client.Config{URL: server.URL + "/dbq/", Token: secret, Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	for _, f := range change {
		f(&cfg)
	}
	s.client, err = client.New(cfg)
	must(t, err)
	return s
}

// change sets the middleware of the server.
func (s *site) change(f func(next http.Handler) http.Handler) { s.through.Store(&f) }

// on wraps the requests whose path ends in some way.
func on(suffix string, do func(w http.ResponseWriter, r *http.Request, next http.Handler)) (
	through func(next http.Handler) http.Handler) {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, suffix) {
				do(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// lose serves a request, and closes the connection in place of the response.
func lose(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func (s *site) queue() *client.Queue { return s.client.Queue("mail") }

// enqueue adds tasks with these payloads directly.
func (s *site) enqueue(payloads ...string) []dbq.Enqueued {
	s.Helper()
	ts := make([]dbq.NewTask, len(payloads))
	for i, p := range payloads {
		ts[i].Payload = []byte(p)
	}
	out, err := s.db.Queue("mail").EnqueueMany(s.Context(), ts)
	must(s.T, err)
	return out
}

// task reads a task directly.
func (s *site) task(e dbq.Enqueued) dbq.Task {
	s.Helper()
	t, err := s.db.Get(s.Context(), e.ID)
	must(s.T, err)
	return t
}

// worker returns a worker with short times.
func (s *site) worker(h worker.Handler) *worker.Worker {
	return &worker.Worker{Queue: s.queue(), Handler: h, Lease: time.Second,
		Tuning: worker.Tuning{PollMax: 200 * time.Millisecond}}
}

// work runs a worker until the queue is empty.
func (s *site) work(h worker.Handler) {
	s.Helper()
	w := s.worker(h)
	w.UntilEmpty = true
	must(s.T, w.Run(s.Context()))
}

// start runs a worker until stop is called, which returns Run's error.
func (s *site) start(w *worker.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(30 * time.Second):
			s.Error("Run does not return")
			return nil
		}
	})
	s.Cleanup(func() { _ = stop() })
	return stop
}

func must(t testing.TB, err error) {
	t.Helper()
	check.OK(t, err)
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// buffer is a log that is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
