package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/wire"
)

// ReceiverConfig configures a Receiver. Queue and Secrets are required. For every other field, zero means the
// documented default.
type ReceiverConfig struct {
	// Queue gets a task for each message.
	Queue *dbq.Queue
	// Secrets are the secrets that senders may sign with.
	Secrets []Secret
	// Tolerance is how far the timestamp of a message may be from this process's clock, in whole seconds. The default
	// is 5 minutes.
	Tolerance time.Duration
	// Window is how long a message is recognized when it is repeated, even if its task has completed and was removed.
	// It must be at least twice Tolerance. The default is 7 days. Each message costs a row of dbq_unique_key for this
	// time and a day.
	Window time.Duration
	// Kind is the kind of the tasks.
	Kind string
	// KindFromType makes the field "type" of the message the kind, if the message is a JSON object that has one and it
	// is a valid kind.
	KindFromType bool
	// Tasks makes the Receiver the far side of a Forwarder: each message contains tasks, with their kinds, references
	// and other fields. Kind and KindFromType are then ignored.
	Tasks bool
	// MaxBody is the largest message in bytes. The default is 1 MiB, and at most Info.MaxPayload of the client. With
	// Tasks, the default is 8 MiB; in a message, a payload takes four thirds of its size.
	MaxBody int
	// ReadTimeout is how long the sender may take to send a message. The default is 10 seconds.
	ReadTimeout time.Duration
	// MaxRequests is how many messages may be received at once. Others get 503 with Retry-After before their bodies are
	// read, so at most MaxRequests times MaxBody bytes are in memory. A message that has taken more than a second to
	// arrive makes room for another and gets 408. The default is 100.
	MaxRequests int
	// Logger gets a line for each message that could not be enqueued because of the database. The default is
	// slog.Default.
	Logger *slog.Logger
}

// Receiver is an http.Handler that enqueues a task for each message that is POSTed to it, at any path. The payload is
// the message's body, and the reference its Webhook-Id. The headers traceparent, tracestate and baggage become headers
// of the task.
//
// The response is 202 with the task's id, {"id":"…","duplicate":false}, once the task is committed. A repeated message,
// with the same Webhook-Id, gets the same response with "duplicate":true and adds no task. Every other response is a
// problem of RFC 9457: 401 for a message that is not signed by one of Secrets or too old, 408 for one that arrives too
// slowly, 413 for one that is too large, 503 with Retry-After if the database is not available, 500 for its other
// errors.
type Receiver struct {
	cfg     ReceiverConfig
	now     func() time.Time
	running chan struct{} // one element for each message that is being received
	arrives arrivals
}

// enqueueTimeout is how long a message may wait for the database. Senders give up after 15 to 30 seconds.
const enqueueTimeout = 15 * time.Second

// NewReceiver returns a Receiver, or ErrConfig.
func NewReceiver(cfg ReceiverConfig) (*Receiver, error) {
	if cfg.Queue == nil {
		return nil, invalid("Queue is missing")
	}
	if err := checkSecrets(cfg.Secrets); err != nil {
		return nil, err
	}
	most, usual := cfg.Queue.Client().Info().MaxPayload, 1<<20
	if cfg.Tasks {
		most, usual = math.MaxInt32, 8<<20
	}
	cfg.Tolerance = cmp.Or(cfg.Tolerance, 5*time.Minute)
	cfg.Window = cmp.Or(cfg.Window, DefaultWindow)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, min(usual, most))
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, 10*time.Second)
	switch {
	case cfg.Tolerance < time.Second || cfg.Tolerance > time.Hour:
		return nil, invalid("Tolerance is %v; it must be 1s to 1h", cfg.Tolerance)
	case cfg.Window < 2*cfg.Tolerance || cfg.Window > dbq.MaxUniquePeriod || cfg.Window%time.Microsecond != 0:
		return nil, invalid("Window is %v; it must be %v to %v in whole microseconds, because Tolerance is %v",
			cfg.Window, 2*cfg.Tolerance, dbq.MaxUniquePeriod, cfg.Tolerance)
	case cfg.MaxBody < 0 || cfg.MaxBody > most:
		return nil, invalid("MaxBody is %d; it must be 1 to %d", cfg.MaxBody, most)
	case cfg.ReadTimeout < 0 || cfg.MaxRequests < 0:
		return nil, invalid("ReadTimeout and MaxRequests must not be negative")
	case !isKind(cfg.Kind):
		return nil, invalid("Kind is longer than %d characters or has a control character", dbq.MaxKind)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Secrets = slices.Clone(cfg.Secrets)
	return &Receiver{cfg: cfg, now: time.Now, running: make(chan struct{}, cmp.Or(cfg.MaxRequests, 100))}, nil
}

// DefaultWindow is for how long a repeated message or task is recognized by default.
const DefaultWindow = 7 * 24 * time.Hour

// ServeHTTP verifies a message and enqueues its task.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	// A refusal must not wait for the body either. A server without deadlines for single requests has its own for all.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(r.cfg.ReadTimeout))
	if !r.take() {
		p := refuse(http.StatusServiceUnavailable, "overloaded", "too many messages are being received; repeat it later")
		p.Retry = true
		h.Set("Connection", "close") // its body is not read
		p.Respond(w)
		return
	}
	defer func() { <-r.running }()
	m, body, p := r.read(w, req)
	var out any
	if p == nil {
		ctx, cancel := context.WithTimeout(req.Context(), enqueueTimeout)
		defer cancel()
		if r.cfg.Tasks {
			out, p = r.enqueueTasks(ctx, body)
		} else {
			out, p = r.enqueue(ctx, req, m, body)
		}
	}
	if p != nil {
		p.Respond(w)
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(out) // the sender may be gone
}

// take takes a place for a message. If there is none, it ends the oldest message that arrives slowly.
func (r *Receiver) take() bool {
	select {
	case r.running <- struct{}{}:
		return true
	default:
	}
	if !r.arrives.endOldest() {
		return false
	}
	select {
	case r.running <- struct{}{}:
		return true
	case <-time.After(roomWait):
		return false
	}
}

// read returns a message that one of the secrets has signed.
func (r *Receiver) read(w http.ResponseWriter, req *http.Request) (m message, body []byte, p *wire.Problem) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return m, nil, refuse(http.StatusMethodNotAllowed, "method", "use POST")
	}
	m, err := readMessage(req.Header, r.now(), r.cfg.Tolerance)
	if err == nil && req.ContentLength > int64(r.cfg.MaxBody) {
		return m, nil, r.tooLarge()
	}
	if err == nil {
		if body, p = r.readBody(w, req); p != nil {
			return m, nil, p
		}
		err = m.verify(r.cfg.Secrets, body)
	}
	switch {
	case errors.Is(err, errHeaders):
		return m, nil, refuse(http.StatusBadRequest, "signature-headers", "Webhook-Id, Webhook-Timestamp and "+
			"Webhook-Signature of Standard Webhooks must each be given once, and be valid")
	case errors.Is(err, errExpired):
		return m, nil, refuse(http.StatusUnauthorized, "timestamp", fmt.Sprintf(
			"Webhook-Timestamp is more than %v from the receiver's clock; sign each attempt anew", r.cfg.Tolerance))
	case err != nil:
		return m, nil, refuse(http.StatusUnauthorized, "signature",
			"Webhook-Signature has no signature of this message by a secret of the receiver")
	}
	return m, body, nil
}

func (r *Receiver) tooLarge() *wire.Problem {
	return refuse(http.StatusRequestEntityTooLarge, "too-large",
		fmt.Sprintf("the message has more than %d bytes", r.cfg.MaxBody))
}

func (r *Receiver) readBody(w http.ResponseWriter, req *http.Request) ([]byte, *wire.Problem) {
	done := r.arrives.add(w)
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, int64(r.cfg.MaxBody)))
	done()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, r.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, refuse(http.StatusRequestTimeout, "too-slow",
			fmt.Sprintf("the message did not arrive within %v", r.cfg.ReadTimeout))
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "body", "the message could not be read")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// enqueue enqueues the task of a message.
func (r *Receiver) enqueue(ctx context.Context, req *http.Request, m message, body []byte) (farTask, *wire.Problem) {
	out, err := r.cfg.Queue.EnqueueMany(ctx, []dbq.NewTask{{
		Kind: r.kind(body), Payload: body, Reference: m.id, Headers: r.headers(req),
		Unique: &dbq.Unique{Key: m.id, Window: r.cfg.Window},
	}})
	if err == nil {
		return farTask{out[0].ID, out[0].Duplicate}, nil
	}
	return farTask{}, r.refuse(ctx, err)
}

// refuse returns the problem for an error of an enqueue. Only the log has its text.
func (r *Receiver) refuse(ctx context.Context, err error) *wire.Problem {
	if errors.Is(err, dbq.ErrInvalid) {
		return refuse(http.StatusUnprocessableEntity, "invalid", "the queue does not accept such a task"+refusedField(err))
	}
	r.cfg.Logger.Error("bridge: message not enqueued", "queue", r.cfg.Queue.Name(), "error", err.Error())
	p := refuse(http.StatusServiceUnavailable, "unavailable",
		"the task may not have been enqueued; repeat the message with the same Webhook-Id")
	if !isOutage(ctx, err) {
		p = refuse(http.StatusInternalServerError, "database", p.Detail)
	}
	p.Retry, p.After = true, 5*time.Second
	return p
}

// refuse returns a problem, which never contains a part of the message. name is the last part of its type.
func refuse(status int, name, detail string) *wire.Problem {
	return &wire.Problem{Type: wire.Prefix + name, Title: http.StatusText(status), Status: status, Detail: detail}
}

// refusedField returns the field of a task that an error is about. The error itself may have a part of the message.
func refusedField(err error) string {
	for _, field := range []error{
		dbq.ErrPayloadSize, dbq.ErrHeaders, dbq.ErrReference, dbq.ErrKind, dbq.ErrKey, dbq.ErrPriority, dbq.ErrMaxAttempts,
		dbq.ErrID, dbq.ErrWrongQueue,
	} {
		if errors.Is(err, field) {
			return ": " + field.Error()
		}
	}
	return ""
}

// kind returns the kind of a message's task.
func (r *Receiver) kind(body []byte) string {
	var fields map[string]json.RawMessage // a struct would take the field TYPE, too
	var kind string
	if r.cfg.KindFromType && json.Unmarshal(body, &fields) == nil && json.Unmarshal(fields["type"], &kind) == nil &&
		isKind(kind) {
		return cmp.Or(kind, r.cfg.Kind)
	}
	return r.cfg.Kind
}

func isKind(text string) bool {
	return utf8.RuneCountInString(text) <= dbq.MaxKind && isText(text)
}

// isText reports whether a text is valid as a kind, or as a value of a header.
func isText(text string) bool {
	for _, c := range text {
		if c == utf8.RuneError || unicode.IsControl(c) {
			return false
		}
	}
	return true
}

// headers returns the context of a trace. They are not signed: a context that is too long or malformed is left out.
func (r *Receiver) headers(req *http.Request) map[string]string {
	const most = 512 // as tracestate has at most
	out := map[string]string{}
	for _, name := range traceHeaders {
		if v := req.Header.Get(name); v != "" && len(v) <= most && isText(v) {
			out[name] = v
		}
	}
	return out
}
