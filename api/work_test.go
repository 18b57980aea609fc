package api_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/internal/check"
)

func TestBatchIsRepeatable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const body = `{"tasks":[{"payload":"a"},{"payload_base64":"/w=="},{"payload":null,"reference":"k/2"}]}`
	first := s.must(200, "POST", mail+"/tasks/batch", body, "Idempotency-Key", "k")["tasks"].([]any)
	again := s.must(200, "POST", mail+"/tasks/batch", body, "Idempotency-Key", "k")["tasks"].([]any)
	for i := range first {
		a, b := first[i].(map[string]any), again[i].(map[string]any)
		if a["duplicate"] == true || b["duplicate"] != true || a["id"] != b["id"] {
			t.Errorf("task %d: %v, then %v", i, a, b)
		}
	}
	tasks := s.must(200, "POST", mail+"/checkout", `{"max":3}`)["tasks"].([]any)
	if len(tasks) != 3 {
		t.Fatalf("%d tasks, want 3", len(tasks))
	}
	for i, want := range []map[string]any{{"payload": "a"}, {"payload_base64": "/w=="}, {}} {
		got := tasks[i].(map[string]any)
		if got["payload"] != want["payload"] || got["payload_base64"] != want["payload_base64"] {
			t.Errorf("task %d has the payload %v %v, want %v", i, got["payload"], got["payload_base64"], want)
		}
	}
	s.refused(422, "invalid-request", "POST", mail+"/tasks", `{"reference":"a"}`, "Idempotency-Key", "b")
}

// A key that makes no request repeatable is refused: an empty one, and two.
func TestIdempotencyKeyIsOne(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, keys := range [][]string{{""}, {"a", "b"}, {"a", "a"}} {
		r := httptest.NewRequest("POST", mail+"/tasks", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header["Idempotency-Key"] = keys
		w := httptest.NewRecorder()
		s.api.ServeHTTP(w, r)
		if w.Code != 422 || !strings.Contains(w.Body.String(), "Idempotency-Key") {
			t.Errorf("%q: %d %s", keys, w.Code, w.Body)
		}
	}
}

func TestEveryOutcomeIsStored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for outcome, want := range map[string]string{
		`"complete","result":"r"`: "COMPLETED r", `"delete"`: "REMOVED ", `"fail","error":"e"`: "ERROR e",
		`"retry","delay_seconds":60,"error":"e"`: "ERROR e", `"retry","retry_at":"2030-01-01T00:00:00Z"`: "ERROR ",
		`"park","error":"e","progress":"p"`: "ERROR e", `"poison","error":"e"`: "POISON e", `"release"`: "CREATED ",
		`"complete","result_base64":"/w=="`: "COMPLETED ", `"complete","result":[1,2]`: "COMPLETED [1,2]",
	} {
		q := "/v1/db/shop/queues/" + fmt.Sprintf("%x", outcome)
		id := s.must(201, "POST", q+"/tasks", `{}`)["id"].(string)
		lease := one(t, s.must(200, "POST", q+"/checkout", `{}`), "tasks")["lease"].(string)
		settled := one(t, s.must(200, "POST", q+"/settle", `{"settlements":[{"lease":"`+lease+`","outcome":`+outcome+`}]}`),
			"settled")
		var task map[string]any
		if settled["state"] != "REMOVED" {
			task = s.must(200, "GET", "/v1/db/shop/tasks/"+id, "")
		}
		result, _ := task["result"].(string)
		if got := fmt.Sprint(settled["state"], " ", result); got != want {
			t.Errorf("%s: %q, want %q", outcome, got, want)
		}
	}
}

func TestCheckoutWaitsForATask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	begin := time.Now()
	if tasks := s.must(200, "POST", mail+"/checkout", `{"wait_seconds":0.2}`)["tasks"].([]any); len(tasks) != 0 {
		t.Errorf("an empty queue has %v", tasks)
	}
	if waited := time.Since(begin); waited < 150*time.Millisecond {
		t.Errorf("it waited for %v, want 0.2 s", waited)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		_, _ = s.client.Queue("mail").Enqueue(context.Background(), dbq.NewTask{})
	}()
	begin = time.Now()
	one(t, s.must(200, "POST", mail+"/checkout", `{"wait_seconds":20}`), "tasks")
	if waited := time.Since(begin); waited > 5*time.Second {
		t.Errorf("it waited for %v after the task was enqueued", waited)
	}
}

// TestTasksOfADisconnectedCallerReturn ends a request that waits. A task that is enqueued then goes to another caller.
func TestTasksOfADisconnectedCallerReturn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+mail+"/checkout", strings.NewReader(`{"wait_seconds":30}`))
		check.OK(t, err)
		r.Header.Set("Content-Type", "application/json")
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
		}
		cancel()
	}
	id := s.must(201, "POST", mail+"/tasks", `{}`)["id"]
	got := one(t, s.must(200, "POST", mail+"/checkout", `{"wait_seconds":20}`), "tasks")
	if got["id"] != id || got["attempt"] != 1.0 {
		t.Errorf("got %v, want the task %v in its first attempt", got, id)
	}
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.MaxWaiting, c.MaxRequests = 1, 1 })
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for status := 0; status != 200; { // until it has the only place
			status, _ = s.send("POST", mail+"/checkout", `{"wait_seconds":2}`)
		}
	}()
	check.Eventually(t, "a second request is refused", func() bool {
		status, text := s.send("POST", mail+"/checkout", `{}`)
		return status == 503 && strings.Contains(text, "overloaded")
	})
	s.must(201, "POST", mail+"/tasks", `{}`) // other requests are not affected
	<-ended
}

// TestSlowBodyIsRefused sends a part of a body, and then nothing.
func TestSlowBodyIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.BodyTimeout = 100 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	check.OK(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s/tasks HTTP/1.1\r\nHost: x\r\n", mail)
	fmt.Fprint(conn, "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.OK(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%s, want 408", response.Status)
	}
}
