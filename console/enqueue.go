package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/google/uuid"
)

// newTask is the form of a task to enqueue.
type newTask struct {
	Queue, Kind, Payload, Reference, Key, Priority, Delay, MaxAttempts, Headers string

	From  string // the task that the form was filled from
	Bytes bool   // its payload is not text, and cannot be edited here
}

// enqueuePage shows the form. With ?from=ID it is filled from a task, to enqueue an edited copy.
func (c *Console) enqueuePage(v *visit) error {
	form := newTask{Queue: v.form("queue"), Payload: "{}"}
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
		form = newTask{Queue: t.Queue, Kind: t.Kind, Payload: string(t.Payload), Key: t.Key, From: from,
			Priority: fmt.Sprint(t.Priority), MaxAttempts: fmt.Sprint(t.MaxAttempts), Headers: headerLines(t.Headers)}
		if !utf8.Valid(t.Payload) {
			form.Bytes, form.Payload = true, ""
		}
	}
	if err := v.need(auth.Enqueue, form.Queue); form.Queue != "" && err != nil {
		return err
	}
	v.show(http.StatusOK, "enqueue", "Enqueue a task", form)
	return nil
}

// enqueue adds the task of the form.
func (c *Console) enqueue(v *visit) error {
	queue := v.form("queue")
	if err := v.need(auth.Enqueue, queue); err != nil {
		return err
	}
	t := dbq.NewTask{
		Kind: v.form("kind"), Payload: []byte(v.r.FormValue("payload")), Reference: v.form("reference"), Key: v.form("key"),
	}
	var err error
	if v.form("json") != "" && !json.Valid(t.Payload) {
		return formError("the payload is not valid JSON")
	}
	if t.Priority, err = v.count("priority"); err != nil {
		return err
	}
	if t.MaxAttempts, err = v.count("max_attempts"); err != nil {
		return err
	}
	if t.Delay, err = duration("delay", v.form("delay")); err != nil {
		return err
	}
	if t.Headers, err = parseHeaders(v.r.FormValue("headers")); err != nil {
		return err
	}
	done, err := v.db.client.Queue(queue).EnqueueMany(v.ctx(), []dbq.NewTask{t})
	if err != nil {
		return err
	}
	v.db.overview.expire()
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
			return nil, formError("write each header as a line of name: value")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out, nil
}
