package bridge_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/duration"
)

// FuzzReceiver sends any signed message: the answer is a success, or a problem of the message.
func FuzzReceiver(f *testing.F) {
	for _, tasks := range []bool{false, true} {
		f.Add(tasks, "msg_1", `{"type":"order.paid","data":{"id":7}}`)
		f.Add(tasks, "msg_2", `{"tasks":[{"id":"01a217bb-bd5c-7e23-ab30-97e7ec3729c9","payload":"e30=","priority":2}]}`)
	}
	queue, secret := dbqtest.New(f).Client.Queue("arrivals"), bridge.NewSecret()
	var receivers [2]*bridge.Receiver
	for i := range receivers {
		receivers[i] = newReceiver(f, bridge.ReceiverConfig{
			Queue: queue, Secrets: []bridge.Secret{secret}, Tasks: i == 1,
		})
	}
	f.Fuzz(func(t *testing.T, tasks bool, id, body string) {
		to := receivers[0]
		if tasks {
			to = receivers[1]
		}
		got := httptest.NewRecorder()
		to.ServeHTTP(got, signed(t, "http://localhost/", id, time.Now(), body, secret))
		if got.Code >= 500 || !json.Valid(got.Body.Bytes()) {
			t.Errorf("message %q %q: %d %s", id, body, got.Code, got.Body)
		}
	})
}

// FuzzRetryAfter reads any header: none of them makes a wait negative or shorter than a second.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Thu, 26 Nov 2026 12:00:00 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		if wait := duration.RetryAfter(text, time.Unix(1_800_000_000, 0)); wait != 0 && wait < time.Second {
			t.Errorf("%q is a wait of %v", text, wait)
		}
	})
}

// FuzzFarSide gets any response: it is the result of each task or an error, which is one line of text.
func FuzzFarSide(f *testing.F) {
	var status atomic.Int64
	var body atomic.Pointer[[]byte]
	s := serve(f, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write(*body.Load())
	})
	to, err := bridge.ToURL(local(s.URL))
	check.OK(f, err)
	f.Add(uint16(202), []byte(`{"tasks":[{"id":"01a217bb-bd5c-7e23-ab30-97e7ec3729c9","duplicate":true}]}`))
	f.Add(uint16(422), []byte(`{"type":"urn:dbq:problem:invalid","detail":"the queue does not accept such a task\u0000"}`))
	f.Add(uint16(503), []byte(`{"type":"urn:dbq:problem:unavailable","detail":"\n"}`))
	f.Fuzz(func(t *testing.T, code uint16, text []byte) {
		status.Store(200 + int64(code-200)%400)
		if code < 200 {
			status.Store(200)
		}
		body.Store(&text)
		task := dbq.NewTask{ID: dbq.NewID(), Unique: &dbq.Unique{Key: "k", Window: time.Hour}}
		got, err := to.Enqueue(t.Context(), []dbq.NewTask{task})
		if err == nil && (status.Load() >= 300 || !json.Valid(text)) {
			t.Errorf("%d %q is the result %v", status.Load(), text, got)
		}
		if err != nil && (strings.ContainsFunc(err.Error(), unicode.IsControl) || len(err.Error()) > 4000) {
			t.Errorf("%d %q is the error %q", status.Load(), text, err)
		}
	})
}
