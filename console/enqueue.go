package console

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/google/uuid"
)

// newTask is the form of a task to enqueue.
type newTask struct {
	Queue, Kind, Payload, Reference, Key, Priority, Delay, MaxAttempts, Headers string

	refusal
	From string // the task that the form was filled from
	JSON bool   // Payload is JSON
	// Base64 and JSONHeaders report how a text is shown that the form would change.
	Base64      bool // Payload is in base64
	JSONHeaders bool // Headers are a JSON object
}

// Number returns a field that has a whole number for the template.
func (f newTask) Number(name, label, entered string) formField {
	out := f.Field("task", name, label, "", entered)
	out.Number = true
	return out
}

// maxEdited is the largest payload that a form is filled with. Its bytes may each become three in the form.
const maxEdited = 5 << 20

// survives reports whether a form sends a text as it is: a browser normalizes the ends of lines, and HTML has no NUL.
func survives(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsAny(text, "\r\x00")
}

// enqueuePage shows the form. With ?from=ID it is filled from a task, to enqueue an edited copy.
func (c *Console) enqueuePage(v *visit) error {
	form := newTask{Queue: v.named("queue"), Payload: "{}", JSON: true}
	if from := v.form("from"); from != "" {
		id, err := uuid.Parse(from)
		if err != nil {
			return errNoPage
		}
		t, err := v.db.client.Get(v.ctx(), id)
		if err != nil {
			return err
		}
		if !v.may(auth.Read, t.Queue) {
			return dbq.ErrNotFound
		}
		if !v.user.Payloads {
			return errForbidden
		}
		if v.db.redact.Task(&t) {
			return formError("parts of the task are hidden, so it cannot be copied")
		}
		if form, err = copyOf(t); err != nil {
			return err
		}
	}
	if err := v.need(auth.Enqueue, form.Queue); form.Queue != "" && err != nil {
		return err
	}
	v.show(http.StatusOK, "enqueue", "Enqueue a task", form)
	return nil
}

// hopsHeader is bridge.HopsHeader; the console needs nothing else of the bridge.
const hopsHeader = "dbq-hops"

// copyOf returns the form that enqueues a copy of a task.
func copyOf(t dbq.Task) (newTask, error) {
	if len(t.Payload) > maxEdited {
		return newTask{}, formError("the payload is too large to edit here; enqueue the copy by program")
	}
	form := newTask{Queue: t.Queue, Kind: t.Kind, Payload: string(t.Payload), Key: t.Key, From: t.ID.String(),
		JSON: json.Valid(t.Payload), Priority: fmt.Sprint(t.Priority), MaxAttempts: fmt.Sprint(t.MaxAttempts)}
	if !survives(form.Payload) {
		form.Base64, form.Payload = true, base64.StdEncoding.EncodeToString(t.Payload)
	}
	t.Headers = maps.Clone(t.Headers)
	delete(t.Headers, hopsHeader) // a new task was not forwarded before
	form.Headers = headerLines(t.Headers)
	if same, err := parseHeaders(form.Headers); err != nil || !maps.Equal(same, t.Headers) || !survives(form.Headers) {
		b, err := json.MarshalIndent(t.Headers, "", "  ")
		form.JSONHeaders, form.Headers = true, string(b)
		return form, err
	}
	return form, nil
}

// payload reads the payload of the form.
func (v *visit) payload() ([]byte, error) {
	text := v.r.FormValue("payload")
	if v.form("encoding") == "" {
		return []byte(strings.ReplaceAll(text, "\r\n", "\n")), nil // a browser sends each end of a line as CRLF
	}
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, fieldError{"payload", "the payload is not valid base64"}
	}
	return b, nil
}

// headers reads the headers of the form.
func (v *visit) headers() (out map[string]string, err error) {
	text := v.r.FormValue("headers")
	if v.form("header_format") == "" {
		return parseHeaders(text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fieldError{"headers", "the headers must be a JSON object of texts"}
	}
	return out, nil
}

// enteredTask returns the form as it was sent.
func (v *visit) enteredTask() newTask {
	text := func(name string) string { return strings.ReplaceAll(v.r.FormValue(name), "\r\n", "\n") }
	form := newTask{
		Queue: text("queue"), Kind: text("kind"), Payload: text("payload"), Reference: text("reference"),
		Key: text("key"), Priority: text("priority"), Delay: text("delay"), MaxAttempts: text("max_attempts"),
		Headers: text("headers"), JSON: v.form("json") != "", Base64: v.form("encoding") != "",
		JSONHeaders: v.form("header_format") != "",
	}
	if from, err := uuid.Parse(v.form("from")); err == nil {
		form.From = from.String()
	}
	return form
}

// checkTask refuses the fields of a new task that are invalid, each by itself.
func checkTask(queue string, t dbq.NewTask) error {
	errs := []error{nil}
	if err := bounds.QueueName(queue); err != nil {
		errs[0] = fieldError{"queue", formError(reason(err))}
	}
	for _, one := range []struct {
		field string
		only  dbq.NewTask
	}{
		{"kind", dbq.NewTask{Kind: t.Kind}}, {"reference", dbq.NewTask{Reference: t.Reference}},
		{"key", dbq.NewTask{Key: t.Key}}, {"priority", dbq.NewTask{Priority: t.Priority}},
		{"delay", dbq.NewTask{Delay: t.Delay}}, {"max_attempts", dbq.NewTask{MaxAttempts: t.MaxAttempts}},
		{"headers", dbq.NewTask{Headers: t.Headers}},
	} {
		if err := access.Check(one.only); err != nil {
			errs = append(errs, fieldError{one.field, formError(reason(err))})
		}
	}
	return invalid(errs...)
}

// taskFields are the errors of a new task by the field of the form that they are about.
var taskFields = map[string]error{
	"queue": dbq.ErrQueueName, "kind": dbq.ErrKind, "reference": dbq.ErrReference, "key": dbq.ErrKey,
	"priority": dbq.ErrPriority, "delay": dbq.ErrDelay, "max_attempts": dbq.ErrMaxAttempts, "headers": dbq.ErrHeaders,
	"payload": dbq.ErrPayloadSize,
}

// enqueue adds the task of the form, or shows the form again if it is invalid.
func (c *Console) enqueue(v *visit) error {
	err := v.enqueue()
	again, ok := v.refusal("task", err)
	if !ok {
		return err
	}
	for field, wrong := range taskFields {
		if errors.Is(err, wrong) {
			again.blame(fieldError{field, formError(reason(err))})
		}
	}
	form := v.enteredTask()
	form.refusal = again
	v.show(again.status(), "enqueue", "Enqueue a task", form)
	return nil
}

func (v *visit) enqueue() error {
	queue := v.named("queue")
	if err := v.need(auth.Enqueue, queue); err != nil {
		return err
	}
	t := dbq.NewTask{Kind: v.named("kind"), Reference: v.named("reference"), Key: v.named("key")}
	var payloadErr, headersErr error
	t.Payload, payloadErr = v.payload()
	if payloadErr == nil && v.form("json") != "" && !json.Valid(t.Payload) {
		payloadErr = fieldError{"payload", "the payload is not valid JSON"}
	}
	err := v.read(field{"priority", &t.Priority}, field{"delay", &t.Delay}, field{"max_attempts", &t.MaxAttempts})
	t.Headers, headersErr = v.headers()
	if err = invalid(checkTask(queue, t), payloadErr, err, headersErr); err != nil {
		return err
	}
	done, err := v.db.client.Queue(queue).EnqueueMany(v.ctx(), []dbq.NewTask{t})
	if err != nil {
		return err
	}
	v.db.changed()
	message := "The task was enqueued."
	if done[0].Duplicate {
		message = "A task with this reference exists already; this is it. Nothing was added."
	}
	return v.done(v.path("task/"+done[0].ID.String()), message)
}

// headerLines writes headers as lines of "name: value".
func headerLines(headers map[string]string) string {
	var lines []string
	for name, value := range headers {
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// parseHeaders reads them.
func parseHeaders(text string) (map[string]string, error) {
	var out map[string]string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fieldError{"headers", "write each header as a line of name: value"}
		}
		if out == nil {
			out = map[string]string{}
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out, nil
}
