package client_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/client"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

func TestEnqueuedTaskIsRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	for _, want := range []dbq.NewTask{
		{},
		{Payload: []byte{}},
		{Payload: all, Kind: "k", Key: "acme", Priority: 3, MaxAttempts: 7, Headers: map[string]string{"a": "<b>\u2028"}},
		{Payload: []byte("\x00\u2028<&>\"\\ü"), Reference: "r/1", RunAt: at},
		{Payload: []byte(`{"a": 1}`), Delay: 90 * time.Second, Unique: &dbq.Unique{Key: "u", Period: time.Hour}},
	} {
		id, err := s.queue().Enqueue(t.Context(), want)
		check.OK(t, err)
		stored := s.task(dbq.Enqueued{ID: id})
		got, err := s.client.Get(t.Context(), id)
		check.OK(t, err)
		if !reflect.DeepEqual(got, stored) {
			t.Errorf("got %+v\nwant %+v", got, stored)
		}
		if (got.Payload == nil) != (want.Payload == nil) || !bytes.Equal(got.Payload, want.Payload) ||
			got.Kind != want.Kind || got.Key != want.Key || got.Reference != want.Reference ||
			!reflect.DeepEqual(got.Headers, want.Headers) || !want.RunAt.IsZero() && !got.Due.Equal(at) {
			t.Errorf("enqueued %+v, got %+v", want, got)
		}
	}
}

func TestEnqueueReportsDuplicates(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, err := s.queue().Enqueue(t.Context(), dbq.NewTask{Reference: "a"})
	check.OK(t, err)
	again, err := s.queue().Enqueue(t.Context(), dbq.NewTask{Reference: "a"})
	var outer *dbq.Error
	if again != first || !errors.Is(err, dbq.ErrDuplicate) || !errors.As(err, &outer) || outer.TaskID != first {
		t.Errorf("again: %s, %v", again, err)
	}
	out, err := s.queue().EnqueueMany(t.Context(), []dbq.NewTask{{Reference: "b"}, {Reference: "a"}, {Reference: "b"}})
	if err != nil || out[0].Duplicate || !out[1].Duplicate || out[1].ID != first || out[2].ID != out[0].ID {
		t.Errorf("many: %+v, %v", out, err)
	}
	if out, err := s.queue().EnqueueMany(t.Context(), nil); out != nil || err != nil {
		t.Errorf("none: %v, %v", out, err)
	}
}

func TestRefusedInputIsTheErrorOfDbq(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	requests := new(atomic.Int64)
	s.change(on("", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		requests.Add(1)
		next.ServeHTTP(w, r)
	}))
	for name, c := range map[string]struct {
		queue string
		task  dbq.NewTask
		want  error
	}{
		"priority":  {"mail", dbq.NewTask{Priority: 99}, dbq.ErrPriority},
		"kind":      {"mail", dbq.NewTask{Kind: "\xff"}, dbq.ErrKind},
		"headers":   {"mail", dbq.NewTask{Headers: map[string]string{"a": "\xff"}}, dbq.ErrHeaders},
		"reference": {"mail", dbq.NewTask{Reference: strings.Repeat("r", 201)}, dbq.ErrReference},
		"delay":     {"mail", dbq.NewTask{Delay: -1}, dbq.ErrDelay},
		"id":        {"mail", dbq.NewTask{ID: uuid.MustParse("0198c1f2-7a3b-4c4d-8e5f-0123456789ab")}, dbq.ErrID},
		"window":    {"mail", dbq.NewTask{Unique: &dbq.Unique{Key: "k", Window: -time.Hour}}, dbq.ErrUnique},
		"unique":    {"mail", dbq.NewTask{Unique: &dbq.Unique{OnConflict: dbq.UniqueReplace}}, dbq.ErrUnique},
		"no queue":  {"", dbq.NewTask{}, dbq.ErrQueueName},
		"dots":      {"a/../b", dbq.NewTask{}, dbq.ErrQueueName},
	} {
		_, err := s.client.Queue(c.queue).Enqueue(t.Context(), c.task)
		var outer *dbq.Error
		if !errors.Is(err, c.want) || !errors.Is(err, dbq.ErrInvalid) || !errors.As(err, &outer) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
	if id, err := s.client.Queue("a b/ü%2F").Enqueue(t.Context(), dbq.NewTask{}); err != nil ||
		s.task(dbq.Enqueued{ID: id}).Queue != "a b/ü%2F" {
		t.Errorf("a queue whose name must be escaped: %s, %v", id, err)
	}
}

func TestProblemsAreErrorsOfDbq(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, err := s.client.Get(t.Context(), dbq.NewID())
	var p *client.Problem
	if !errors.Is(err, dbq.ErrNotFound) || !errors.As(err, &p) || p.Type != "not-found" || p.Status != 404 ||
		p.RequestID == "" {
		t.Errorf("a task that does not exist: %v", err)
	}
	if _, err := s.client.Wait(t.Context(), dbq.NewID()); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("waiting for it: %v", err)
	}
	large := dbq.NewTask{Payload: bytes.Repeat([]byte("x"), 17<<20)}
	if _, err := s.queue().Enqueue(t.Context(), large); !errors.Is(err, dbq.ErrInvalid) {
		t.Errorf("a body that is too large: %v", err)
	}
}

// TestLostResponseAddsNothingTwice loses the first response of each enqueue.
func TestLostResponseAddsNothingTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := new(atomic.Int64)
	s.change(on("/batch", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n.Add(1)%2 == 1 {
			lose(w, r, next)
		}
		next.ServeHTTP(w, r)
	}))
	for name, task := range map[string]dbq.NewTask{
		"plain": {}, "reference": {Reference: "r"}, "unique": {Unique: &dbq.Unique{Key: "u"}},
		"replace":  {Unique: &dbq.Unique{Key: "v", OnConflict: dbq.UniqueReplace}},
		"debounce": {Delay: time.Minute, Unique: &dbq.Unique{Key: "w", OnConflict: dbq.UniqueDebounce}},
	} {
		out, err := s.queue().EnqueueMany(t.Context(), []dbq.NewTask{task})
		if err != nil || out[0].Duplicate || out[0].Replaced || out[0].Debounced || out[0].ID == uuid.Nil {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	id, err := s.queue().Enqueue(t.Context(), dbq.NewTask{})
	check.OK(t, err)
	s.task(dbq.Enqueued{ID: id})
	if _, err := s.queue().Enqueue(t.Context(), dbq.NewTask{Reference: "r"}); !errors.Is(err, dbq.ErrDuplicate) {
		t.Errorf("a reference that an earlier call has taken: %v", err)
	}
}

func TestLostResponsesMayHaveHappened(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *client.Config) { c.RetryFor = -1 })
	s.change(on("", lose))
	_, err := s.queue().Enqueue(t.Context(), dbq.NewTask{})
	var outer *dbq.Error
	if !errors.Is(err, dbq.ErrMayHaveHappened) || !errors.As(err, &outer) || outer.TaskID == uuid.Nil {
		t.Fatalf("got %v", err)
	}
	s.task(dbq.Enqueued{ID: outer.TaskID})
	if _, err := s.client.Get(t.Context(), outer.TaskID); !errors.Is(err, dbq.ErrUnavailable) ||
		errors.Is(err, dbq.ErrMayHaveHappened) {
		t.Errorf("reading: %v", err)
	}
}

// TestEarlierTryIsReported loses a response, and refuses the next try.
func TestEarlierTryIsReported(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *client.Config) { c.RetryFor = 300 * time.Millisecond })
	n := new(atomic.Int64)
	s.change(on("/batch", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n.Add(1) == 1 {
			lose(w, r, next)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	_, err := s.queue().Enqueue(t.Context(), dbq.NewTask{})
	if !errors.Is(err, dbq.ErrMayHaveHappened) || !errors.Is(err, dbq.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestWaitReturnsTheEndOfATask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.enqueue("a")[0]
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got, err := s.client.Wait(ctx, e.ID)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before its end: %+v, %v", got, err)
	}
	go func() {
		tasks, err := s.db.Queue("mail").Checkout(context.Background(), 1, time.Minute)
		if err == nil && len(tasks) == 1 {
			_ = s.db.Queue("mail").Complete(context.Background(), tasks[0].Lease, []byte("done"))
		}
	}()
	got, err = s.client.Wait(t.Context(), e.ID)
	if err != nil || got.State != dbq.StateCompleted || string(got.Result) != "done" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestWaitIsNotABusyLoop waits at a server that is stopping, which responds at once.
func TestWaitIsNotABusyLoop(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.enqueue("a")[0]
	n := new(atomic.Int64)
	s.change(on("", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		n.Add(1)
		next.ServeHTTP(w, r)
	}))
	s.api.Drain()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.client.Wait(ctx, e.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got := n.Load(); got < 2 || got > 10 {
		t.Errorf("%d requests in a second", got)
	}
}
