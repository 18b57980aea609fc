package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/client"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// refusing responds to settling requests that contain a text with a status.
func refusing(text string, status int) func(http.Handler) http.Handler {
	return on("/settle", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(text)) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			if status == http.StatusUnprocessableEntity { // otherwise the response is not one of dbq serve
				fmt.Fprint(w, `{"type":"urn:dbq:problem:invalid-request"}`)
			}
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// TestHostileServers checks that calls end, and that no error has the token, whatever the server responds.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  error
	}{
		"echo": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(422)
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			fmt.Fprintf(w, `{"type":"urn:dbq:problem:priority","title":%q,"detail":%[1]q,"request_id":%[1]q,"errors":[`+
				`{"location":%[1]q,"message":%[1]q},{"location":"body","message":"x%[2]sx"}]}`, token, token)
		}, dbq.ErrPriority},
		"malformed": {func(w http.ResponseWriter, r *http.Request) { hijack(w, "HTTP/1.1 "+secret+" "+secret+"\r\n\r\n") },
			dbq.ErrMayHaveHappened},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/"+secret, http.StatusTemporaryRedirect)
		}, nil},
		"html":     {func(w http.ResponseWriter, r *http.Request) { http.Error(w, secret, 404) }, nil},
		"not JSON": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, secret) }, dbq.ErrMayHaveHappened},
		"no tasks": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{}`) }, dbq.ErrMayHaveHappened},
		"bad id": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"tasks":[{"id":"x"}]}`) },
			dbq.ErrMayHaveHappened},
		"too long":  {func(w http.ResponseWriter, r *http.Request) { endless(w, "[") }, dbq.ErrMayHaveHappened},
		"trickle":   {trickle, context.DeadlineExceeded},
		"headers":   {manyHeaders, dbq.ErrMayHaveHappened},
		"overload":  {overload, dbq.ErrUnavailable},
		"gateway":   {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502) }, dbq.ErrMayHaveHappened},
		"forbidden": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }, dbq.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.serve)
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			log := &check.Log{}
			cl, err := client.New(client.Config{URL: server.URL, Token: secret, RetryFor: -1, MaxResponse: 1 << 20,
				Logger: slog.New(slog.NewTextHandler(log, nil))})
			check.OK(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err = cl.Queue("mail").Enqueue(ctx, dbq.NewTask{})
			if err == nil || !errors.Is(err, c.want) && c.want != nil || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v", err)
			}
			w := worker.Worker{Queue: cl.Queue("mail"),
				Tuning: worker.Tuning{PollMax: 100 * time.Millisecond}, DrainTimeout: 100 * time.Millisecond,
				Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })}
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			select {
			case err := <-ended:
				if strings.Contains(fmt.Sprint(err), secret) {
					t.Errorf("Run returns %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("Run does not return")
			}
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log has the token:\n%s", log)
			}
		})
	}
}

func overload(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "99999999999")
	w.WriteHeader(http.StatusTooManyRequests)
}

// manyHeaders responds with 100 kB of headers.
func manyHeaders(w http.ResponseWriter, _ *http.Request) {
	hijack(w, "HTTP/1.1 200 OK\r\n"+strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 100)+"\r\n")
}

// hijack sends a text in place of a response.
func hijack(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, _ = io.WriteString(conn, text)
		conn.Close()
	}
}

// endless sends a text until the client is gone.
func endless(w http.ResponseWriter, text string) {
	for block := []byte(strings.Repeat(text, 4096)); ; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// trickle sends a response that does not end.
func trickle(w http.ResponseWriter, r *http.Request) {
	for {
		_, _ = io.WriteString(w, " ")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestWorkerIsPacedAtAnEmptyServer counts the requests of a worker to a server that does not wait, and ignores Max.
func TestWorkerIsPacedAtAnEmptyServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := new(atomic.Int64)
	s.change(on("/checkout", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		n.Add(1)
		fmt.Fprint(w, `{"tasks":[]}`)
	}))
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error { return nil }))
	w.PollMin = 100 * time.Millisecond // of growing pauses, less a random part of up to half
	stop := s.start(w)
	time.Sleep(time.Second)
	check.OK(t, stop())
	if got := n.Load(); got < 2 || got > 10 {
		t.Errorf("%d requests in a second", got)
	}
}

// TestLargeTasksAreTakenOneByOne has tasks that together exceed the limit of a response.
func TestLargeTasksAreTakenOneByOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *client.Config) { c.MaxResponse = 10_000 })
	large := strings.Repeat("x", 4000)
	es := s.enqueue(large, large, large, large)
	stop := s.start(s.worker(worker.Func(func(context.Context, dbq.Task) error { return nil })))
	for _, e := range es {
		check.Eventually(t, "the task is completed", func() bool { return s.task(e).State == dbq.StateCompleted })
	}
	check.OK(t, stop())
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]client.Config{
		"user":     {URL: "https://ann:planted@dbq.example"},
		"scheme":   {URL: "ftp://planted@dbq.example"},
		"broken":   {URL: "https://ann:planted@dbq.example:x y"},
		"query":    {URL: "https://dbq.example?token=planted"},
		"token":    {Token: "planted\nx"},
		"both":     {Token: "planted", TokenFile: "f"},
		"database": {Database: "../x"},
		"response": {MaxResponse: -1},
	} {
		_, err := client.New(cfg)
		if !errors.Is(err, client.ErrConfig) || !errors.Is(err, dbq.ErrInvalid) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokenFileIsReadForEachRequest replaces the file.
func TestTokenFileIsReadForEachRequest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	s := newSite(t, func(c *client.Config) { c.Token, c.TokenFile, c.RetryFor = "", file, -1 })
	for _, c := range []struct {
		text string
		want error
	}{{"", dbq.ErrUnavailable}, {"wrong\n", dbq.ErrDenied}, {secret + "\n", nil}, {"a b", dbq.ErrInvalid}} {
		if c.text != "" {
			check.OK(t, os.WriteFile(file, []byte(c.text), 0o600))
		}
		if _, err := s.queue().Enqueue(t.Context(), dbq.NewTask{}); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.text, err, c.want)
		}
	}
}

func TestUnreachableServerChangesNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	l.Close()
	c, err := client.New(client.Config{URL: "http://" + l.Addr().String(), RetryFor: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	_, err = c.Queue("mail").Enqueue(t.Context(), dbq.NewTask{})
	if !errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("the error does not name the server: %v", err)
	}
}
