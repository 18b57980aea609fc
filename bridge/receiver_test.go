package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

func newReceiver(t testing.TB, cfg bridge.ReceiverConfig) *bridge.Receiver {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	r, err := bridge.NewReceiver(cfg)
	check.OK(t, err)
	return r
}

// signed returns a request with a message.
func signed(t testing.TB, url, id string, at time.Time, body string, s bridge.Secret) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	check.OK(t, err)
	bridge.Sign(req.Header, []bridge.Secret{s}, id, at, []byte(body))
	return req
}

// reply is the response of a Receiver.
type reply struct {
	Status     int
	ID         uuid.UUID
	Duplicate  bool
	Type       string
	Detail     string
	retryAfter string
}

func do(t testing.TB, req *http.Request) (out reply) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.OK(t, err)
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%d %s: %v", resp.StatusCode, body, err)
	}
	if want := map[bool]string{true: "application/json", false: "application/problem+json"}[resp.StatusCode < 300]; resp.
		Header.Get("Content-Type") != want {
		t.Errorf("%d has the type %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	out.Status, out.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	return out
}

func TestReceiverEnqueuesOnce(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	old, current := bridge.NewSecret(), bridge.NewSecret()
	s := serve(t, newReceiver(t, bridge.ReceiverConfig{
		Queue: db.Queue("in"), Secrets: []bridge.Secret{current, old}, Kind: "message", KindFromType: true,
	}).ServeHTTP)
	req := signed(t, s.URL, "msg_1", time.Now(), `{"type":"order.paid"}`, old)
	req.Header.Set("Traceparent", "00-a-b-01")
	req.Header.Set("Baggage", strings.Repeat("x", 5000))
	first := do(t, req)
	if first.Status != 202 || first.Duplicate || first.ID == uuid.Nil {
		t.Fatalf("got %+v", first)
	}
	task, err := db.Get(t.Context(), first.ID)
	check.OK(t, err)
	if task.Kind != "order.paid" || string(task.Payload) != `{"type":"order.paid"}` || task.Reference != "msg_1" ||
		fmt.Sprint(task.Headers) != "map[traceparent:00-a-b-01]" {
		t.Errorf("the task is %+v", task)
	}
	again := func(when string) {
		t.Helper()
		got := do(t, signed(t, s.URL, "msg_1", time.Now(), `{"type":"order.paid"}`, current))
		if got.Status != 202 || !got.Duplicate || got.ID != first.ID {
			t.Errorf("%s: %+v", when, got)
		}
	}
	again("while it waits")
	leased, err := db.Queue("in").Checkout(t.Context(), 1, time.Minute)
	check.OK(t, err)
	check.OK(t, db.Queue("in").Settle(t.Context(), leased[0].Lease, dbq.Deleted()))
	again("after it was removed")
	if got := do(t, signed(t, s.URL, "msg_2", time.Now(), `not json`, current)); got.Status != 202 || got.Duplicate {
		t.Errorf("another message: %+v", got)
	}
	if tasks := db.Tasks("in"); len(tasks) != 1 || tasks[0].Kind != "message" {
		t.Errorf("the tasks are %+v", tasks)
	}
}

// The field "type" has the kind, not one whose name is written in another case.
func TestReceiverTakesTheKindFromTheFieldType(t *testing.T) {
	t.Parallel()
	db, secret := dbqtest.New(t), bridge.NewSecret()
	s := serve(t, newReceiver(t, bridge.ReceiverConfig{
		Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}, Kind: "message", KindFromType: true,
	}).ServeHTTP)
	for body, want := range map[string]string{
		`{"type":"a"}`: "a", `{"TYPE":"b"}`: "message", `{"type":"a","Type":"b"}`: "a", `{"type":5}`: "message",
		`{"type":null}`: "message", `[]`: "message", `{}`: "message",
	} {
		got := do(t, signed(t, s.URL, want+uuid.NewString(), time.Now(), body, secret))
		task, err := db.Get(t.Context(), got.ID)
		check.OK(t, err)
		if task.Kind != want {
			t.Errorf("%s: the kind is %q, want %q", body, task.Kind, want)
		}
	}
}

func TestReceiverEnqueuesOnceUnderConcurrency(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	secret := bridge.NewSecret()
	s := serve(t, newReceiver(t, bridge.ReceiverConfig{Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}}).ServeHTTP)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if got := do(t, signed(t, s.URL, fmt.Sprint("m", i%4), time.Now(), "x", secret)); got.Status != 202 {
				t.Errorf("got %+v", got)
			}
		})
	}
	wg.Wait()
	db.WantTasks("in", dbq.StateCreated, 4)
}

func TestReceiverRefuses(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	secret, body := bridge.NewSecret(), "planted"
	r := newReceiver(t, bridge.ReceiverConfig{Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}, MaxBody: 10})
	s := serve(t, r.ServeHTTP)
	for name, c := range map[string]struct {
		change func(*http.Request) *http.Request
		status int
		kind   string
	}{
		"GET": {func(r *http.Request) *http.Request { r.Method = "GET"; return r }, 405, "method"},
		"forged": {func(*http.Request) *http.Request {
			return signed(t, s.URL, "m", time.Now(), body, bridge.NewSecret())
		}, 401, "signature"},
		"expired": {func(*http.Request) *http.Request {
			return signed(t, s.URL, "m", time.Now().Add(-6*time.Minute), body, secret)
		}, 401, "timestamp"},
		"of the future": {func(*http.Request) *http.Request {
			return signed(t, s.URL, "m", time.Now().Add(6*time.Minute), body, secret)
		}, 401, "timestamp"},
		"unsigned": {func(r *http.Request) *http.Request {
			r.Header.Del("Webhook-Signature")
			return r
		}, 400, "signature-headers"},
		"huge": {func(*http.Request) *http.Request {
			return signed(t, s.URL, "m", time.Now(), strings.Repeat("planted", 100), secret)
		}, 413, "too-large"},
		"huge, chunked": {func(*http.Request) *http.Request {
			r := signed(t, s.URL, "m", time.Now(), strings.Repeat("planted", 100), secret)
			r.ContentLength = -1
			return r
		}, 413, "too-large"},
		"an id that is no reference": {func(*http.Request) *http.Request {
			return signed(t, s.URL, "m\u00ad", time.Now(), body, secret)
		}, 400, "signature-headers"},
	} {
		got := do(t, c.change(signed(t, s.URL, "m", time.Now(), body, secret)))
		if got.Status != c.status || got.Type != "urn:dbq:problem:"+c.kind || strings.Contains(got.Detail, "planted") {
			t.Errorf("%s: %+v, want %d %s", name, got, c.status, c.kind)
		}
	}
	if n := len(db.Tasks("in")); n != 0 {
		t.Errorf("%d tasks", n)
	}
	check.OK(t, db.Close())
	if got := do(t, signed(t, s.URL, "m", time.Now(), body, secret)); got.Status != 503 || got.retryAfter == "" {
		t.Errorf("without a database: %+v", got)
	}
}

func TestReceiverRefusesSlowMessages(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	secret := bridge.NewSecret()
	s := serve(t, newReceiver(t, bridge.ReceiverConfig{
		Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}, ReadTimeout: 200 * time.Millisecond,
	}).ServeHTTP)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	check.OK(t, err)
	defer conn.Close()
	req := signed(t, s.URL, "m", time.Now(), "0123456789", secret)
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n")
	check.OK(t, req.Header.Write(conn))
	fmt.Fprint(conn, "\r\n01234")
	check.OK(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
	response, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(response), "408 Request Timeout") {
		t.Errorf("got %s, %v", response, err)
	}
}

// A message that is refused by its headers gets its response although its body never comes.
func TestReceiverRefusesWithoutTheBody(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t, bridge.ReceiverConfig{
		Queue: dbqtest.New(t).Queue("in"), Secrets: []bridge.Secret{bridge.NewSecret()}, ReadTimeout: 200 * time.Millisecond,
	})
	s := serve(t, receiver.ServeHTTP)
	for _, c := range [][2]string{
		{"POST", "400 Bad Request"}, {"GET", "405 Method Not Allowed"}, {"PUT", "503 Service Unavailable"},
	} {
		method, want := c[0], c[1]
		if method == "PUT" {
			bridge.Fill(receiver)
		}
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		check.OK(t, err)
		fmt.Fprintf(conn, "%s / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", method)
		check.OK(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		response, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(response), want) {
			t.Errorf("%s: got %q, %v, want %s", method, response, err, want)
		}
		check.OK(t, conn.Close())
	}
}

func TestReceiverConfig(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	q, secrets := db.Queue("in"), []bridge.Secret{bridge.NewSecret()}
	for name, cfg := range map[string]bridge.ReceiverConfig{
		"no queue":    {Secrets: secrets},
		"no secret":   {Queue: q},
		"zero secret": {Queue: q, Secrets: make([]bridge.Secret, 1)},
		"tolerance":   {Queue: q, Secrets: secrets, Tolerance: -1},
		"window":      {Queue: q, Secrets: secrets, Window: time.Minute},
		"body":        {Queue: q, Secrets: secrets, MaxBody: db.Info().MaxPayload + 1},
		"timeout":     {Queue: q, Secrets: secrets, ReadTimeout: -1},
		"kind":        {Queue: q, Secrets: secrets, Kind: "\x00"},
	} {
		if _, err := bridge.NewReceiver(cfg); !errors.Is(err, bridge.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWebhookToReceiver sends the tasks of one database to a queue of another, through failures after the far side has
// enqueued the task.
func TestWebhookToReceiver(t *testing.T) {
	t.Parallel()
	near, far := dbqtest.New(t), dbqtest.New(t)
	secret := bridge.NewSecret()
	receiver := newReceiver(t, bridge.ReceiverConfig{Queue: far.Queue("in"), Secrets: []bridge.Secret{secret}})
	calls := map[string]int{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls[r.Header.Get("Webhook-Id")]++
		if calls[r.Header.Get("Webhook-Id")] == 1 {
			receiver.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler) // the response is lost
		}
		receiver.ServeHTTP(w, r)
	})
	const n = 4 // below the breaker's limit
	_, err := near.Queue("out").EnqueueMany(context.Background(), make([]dbq.NewTask, n))
	check.OK(t, err)
	w := newWebhook(t, bridge.WebhookConfig{Endpoint: local(s.URL, secret)}).Worker(near.Queue("out"))
	w.Logger = slog.New(slog.DiscardHandler)
	near.Run(w)
	near.Advance(time.Minute)
	near.Run(w)
	near.WantTasks("out", dbq.StateCompleted, n)
	far.WantTasks("in", dbq.StateCreated, n)
	for _, task := range near.Tasks("out") {
		if !strings.Contains(string(task.Result), `"duplicate":true`) {
			t.Errorf("the result is %s", task.Result)
		}
	}
}

// TestReceiverBoundsItsMessages keeps a message open while others arrive.
func TestReceiverBoundsItsMessages(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	secret := bridge.NewSecret()
	receiver := newReceiver(t, bridge.ReceiverConfig{
		Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}, MaxRequests: 1,
	})
	arrived := make(chan struct{}) // closed when the body of the first message is read
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Id") == "m1" {
			r.Body = &watchedBody{ReadCloser: r.Body, read: sync.OnceFunc(func() { close(arrived) })}
		}
		receiver.ServeHTTP(w, r)
	})
	body, end := io.Pipe()
	first := signed(t, s.URL, "m1", time.Now(), "slow", secret)
	first.Body, first.ContentLength = body, 4
	done := make(chan int, 1)
	go func() {
		response, err := http.DefaultClient.Do(first)
		if err != nil {
			done <- 0
			return
		}
		response.Body.Close()
		done <- response.StatusCode
	}()
	if _, err := end.Write([]byte("sl")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-arrived:
	case <-time.After(30 * time.Second):
		t.Fatal("the first message does not arrive")
	}
	if status := do(t, signed(t, s.URL, "m2", time.Now(), "fast", secret)).Status; status != 503 {
		t.Errorf("a second message gets %d, want 503", status)
	}
	_, _ = end.Write([]byte("ow"))
	_ = end.Close()
	if status := <-done; status != 202 {
		t.Errorf("the first message gets %d", status)
	}
	if status := do(t, signed(t, s.URL, "m3", time.Now(), "later", secret)).Status; status != 202 {
		t.Errorf("a later message gets %d", status)
	}
}

// watchedBody calls read before each read.
type watchedBody struct {
	io.ReadCloser
	read func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.read()
	return b.ReadCloser.Read(p)
}

// TestSlowSendersMakeRoom fills a Receiver with messages whose bodies do not come.
func TestSlowSendersMakeRoom(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	secret := bridge.NewSecret()
	s := serve(t, newReceiver(t, bridge.ReceiverConfig{
		Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}, MaxRequests: 2, ReadTimeout: time.Minute,
	}).ServeHTTP)
	for range 2 {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		check.OK(t, err)
		defer conn.Close()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n")
		check.OK(t, signed(t, s.URL, "m", time.Now(), "0123456789", bridge.NewSecret()).Header.Write(conn))
		fmt.Fprint(conn, "\r\n01234")
	}
	var got reply
	for end := time.Now().Add(10 * time.Second); got.Status != 202 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		got = do(t, signed(t, s.URL, "fast", time.Now(), "x", secret))
	}
	if got.Status != 202 {
		t.Errorf("a message gets %d, want 202", got.Status)
	}
}
