package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/worker"
)

// Action determines the outcome of a task after a response outside 200 to 299.
type Action string

// The actions.
const (
	Retry    Action = "retry"    // another attempt, after Retry-After or the worker's backoff
	Park     Action = "park"     // ERROR without another attempt, until an operator acts
	Poison   Action = "poison"   // POISON
	Complete Action = "complete" // COMPLETED, with the response as result
	// PauseQueue pauses the queue for all workers, until an operator resumes it. The task is released without using an
	// attempt. Only a Webhook has it.
	PauseQueue Action = "pause-queue"
)

// WebhookConfig configures a Webhook. For every field but Endpoint, zero means the documented default.
type WebhookConfig struct {
	Endpoint
	// ContentType is the content type of the payloads. The default is application/json for payloads that are JSON, and
	// application/octet-stream for others.
	ContentType string
	// Rejected is the action for statuses that a retry would not change: 300 to 499, except 408, 425 and 429. It is
	// Park, the default, or Poison.
	Rejected Action
	// OnStatus overrides the action for single statuses, 300 to 599. For example, {410: PauseQueue} stops sending to an
	// endpoint that is gone.
	OnStatus map[int]Action
	// MaxRetryAfter bounds the time that a response's Retry-After can request. The default is an hour.
	MaxRetryAfter time.Duration
	// Logger gets a line when the queue is paused. The default is slog.Default.
	Logger *slog.Logger
}

// Webhook sends the tasks of a queue to an endpoint. Call Worker to get a worker that does this.
//
// Each task is one POST with its payload as body, signed by Standard Webhooks. Webhook-Id is the task's id, the same in
// each attempt, by which the receiver recognizes a repetition. Dbq-Queue, Dbq-Kind and Dbq-Attempt describe the task.
// The headers traceparent, tracestate and baggage of the task are passed on.
//
//   - A status of 200 to 299 completes the task. Its result is the body of the response.
//   - 408, 425, 429, 500 and above, and network errors fail the attempt, which is retried after Retry-After or the
//     worker's backoff.
//   - Any other status parks the task, unless Rejected or OnStatus selects another action. Redirects are not
//     followed.
//
// If an attempt fails, the task stores the status and the first bytes of the response body. Limits of the queue
// (admin.Admin.ConfigureLimits) bound the number of requests at once and per second, over all processes.
type Webhook struct {
	cfg    WebhookConfig
	sender *sender
}

// NewWebhook returns a Webhook, or ErrConfig. It sends nothing.
func NewWebhook(cfg WebhookConfig) (*Webhook, error) {
	s, err := newSender(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	cfg.Rejected = cmp.Or(cfg.Rejected, Park)
	cfg.MaxRetryAfter = cmp.Or(cfg.MaxRetryAfter, time.Hour)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Rejected != Park && cfg.Rejected != Poison {
		return nil, invalid("Rejected must be %q or %q", Park, Poison)
	}
	if cfg.MaxRetryAfter < time.Second || cfg.MaxRetryAfter > dbq.MaxDelay {
		return nil, invalid("MaxRetryAfter is %v; it must be 1s to %v", cfg.MaxRetryAfter, dbq.MaxDelay)
	}
	for status, action := range cfg.OnStatus {
		if status < 300 || status > 599 {
			return nil, invalid("OnStatus has the status %d; it must be 300 to 599", status)
		}
		switch action {
		case Retry, Park, Poison, Complete, PauseQueue:
		default:
			return nil, invalid("OnStatus has an unknown action; use %q, %q, %q, %q or %q",
				Retry, Park, Poison, Complete, PauseQueue)
		}
	}
	cfg.OnStatus = maps.Clone(cfg.OnStatus)
	return &Webhook{cfg: cfg, sender: s}, nil
}

// Worker returns a worker that sends the tasks of q. You can set its other fields before you run it, except Handler
// and Switch: the circuit breaker uses Switch to pause the worker. A Webhook can have several workers.
func (w *Webhook) Worker(q *dbq.Queue) worker.Worker {
	return worker.Worker{
		Queue: q, Switch: &w.sender.breaker.on,
		Handler: worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome { return w.handle(ctx, q, t) }),
	}
}

// traceHeaders are the headers of a task and of a request that carry the context of a trace.
var traceHeaders = []string{"traceparent", "tracestate", "baggage"}

func (w *Webhook) handle(ctx context.Context, q *dbq.Queue, t dbq.Task) dbq.Outcome {
	header := http.Header{
		"Content-Type": {cmp.Or(w.cfg.ContentType, contentType(t.Payload))},
		"User-Agent":   {"dbq"},
		"Dbq-Queue":    {t.Queue},
		"Dbq-Attempt":  {strconv.Itoa(t.Attempt)},
	}
	if t.Kind != "" {
		header.Set("Dbq-Kind", t.Kind)
	}
	for _, name := range traceHeaders {
		if v := t.Headers[name]; v != "" && isText(v) {
			header.Set(name, v)
		}
	}
	a, err := w.sender.post(ctx, t.ID.String(), header, t.Payload)
	switch {
	case errors.Is(err, errPaused):
		return dbq.Released(w.sender.breaker.wait())
	case err != nil:
		return dbq.Failed(err)
	case a.ok():
		return dbq.Completed(result(a.body))
	}
	return w.act(ctx, q, a)
}

// act returns the outcome for a response that is not a success.
func (w *Webhook) act(ctx context.Context, q *dbq.Queue, a response) dbq.Outcome {
	action, given := w.cfg.OnStatus[a.status]
	if !given {
		if action = w.cfg.Rejected; a.retryable() {
			action = Retry
		}
	}
	err := a.err(w.sender.host)
	var o dbq.Outcome
	switch {
	case action == Complete:
		return dbq.Completed(result(a.body))
	case action == PauseQueue:
		return w.pause(ctx, q, err)
	case action == Poison:
		o = dbq.Poisoned(err)
	case action == Park:
		o = dbq.Parked(err)
	case a.retryAfter > 0:
		o = dbq.RetryIn(min(a.retryAfter, w.cfg.MaxRetryAfter), err)
	default:
		o = dbq.Failed(err)
	}
	if len(a.body) == 0 {
		return o
	}
	return o.WithResult([]byte(err.Error() + ": " + strings.ToValidUTF8(string(a.body), "\uFFFD")))
}

// pause pauses the queue.
func (w *Webhook) pause(ctx context.Context, q *dbq.Queue, reason error) dbq.Outcome {
	if err := admin.New(q.Client()).PauseQueue(ctx, q.Name(), admin.Reason(reason.Error())); err != nil {
		return dbq.Failed(err)
	}
	w.cfg.Logger.Error("bridge: queue paused", "queue", q.Name(), "reason", reason.Error())
	return dbq.Released(0)
}

// result returns the body of a response as a result: nil if it is empty.
func result(body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	return bounds.CutResult(body) // here, because the worker would log each as too long
}

func contentType(payload []byte) string {
	if json.Valid(payload) {
		return "application/json"
	}
	return "application/octet-stream"
}
