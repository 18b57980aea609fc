package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/schedule"
)

// scheduleForm is the form of a schedule, with its fields as they were typed.
type scheduleForm struct {
	Values   map[string]string
	Errors   map[string]string // the error of a field
	Revision string            // of the stored schedule that the form changes; "" is a new one
	Owner    string            // the program that declares the stored schedule
	Fixed    bool              // the payload and headers stay: they are hidden, or a form would change them
	Problem  string            // why nothing was saved
	Times    []time.Time       // a preview
}

// scheduleInputs maps the fields of a Schedule to the fields of the form.
var scheduleInputs = map[string]string{
	"Name": "name", "Cron": "cron", "Zone": "zone", "Every": "every", "At": "at", "CatchUp": "catch_up",
	"Jitter": "jitter", "Queue": "queue", "Task.Kind": "kind", "Task.Key": "key", "Task.Priority": "priority",
	"Task.MaxAttempts": "max_attempts", "Task.Delay": "delay", "Task.Payload": "payload", "Task.Headers": "headers",
}

// Field returns a field of the form for the template.
func (f scheduleForm) Field(name, label, hint string) formField {
	return formField{Name: name, Label: label, Value: f.Values[name], Hint: hint, Error: f.Errors[name]}
}

// formField is an input of a form.
type formField struct {
	Name, Label, Value, Hint string

	Error  string // its error
	Later  bool   // another field with an error comes before it and has the focus
	Number bool   // it has a whole number
	Type   string // of the input; "" is text
}

// scheduleFormPage shows the form of a new schedule, or of the one that the query names.
func (c *Console) scheduleFormPage(v *visit) error {
	if v.named("name") == "" {
		if err := v.needSomewhere(auth.Configure); err != nil {
			return err
		}
		v.show(http.StatusOK, "scheduleform", "New schedule", scheduleForm{Values: map[string]string{
			"queue": v.named("queue"), "payload": "{}", "json": "yes", "catch_up": "1",
		}})
		return nil
	}
	s, err := v.schedule(auth.Configure)
	if err != nil {
		return err
	}
	form := scheduleForm{Values: valuesOf(s), Revision: s.Revision, Owner: s.Owner, Fixed: v.fixed(s)}
	if form.Fixed {
		form.Values["payload"], form.Values["headers"], form.Values["json"] = "", "", ""
	}
	v.show(http.StatusOK, "scheduleform", "Edit schedule "+s.Name, form)
	return nil
}

// valuesOf returns the fields of the form for a stored schedule.
func valuesOf(s schedule.Info) map[string]string {
	out := map[string]string{
		"name": s.Name, "cron": s.Cron, "zone": s.Zone, "queue": s.Queue, "kind": s.Task.Kind, "key": s.Task.Key,
		"payload": string(s.Task.Payload), "headers": headerLines(s.Task.Headers), "catch_up": "1",
	}
	set := func(name string, is bool, value any) {
		if is {
			out[name] = fmt.Sprint(value)
		}
	}
	set("every", s.Every != 0, typed(s.Every))
	set("at", !s.At.IsZero(), s.At.Format(time.RFC3339Nano))
	set("catch_up", s.CatchUp != 0, max(s.CatchUp, 0)) // 0 is the default, one; SkipMissed is none
	set("jitter", s.Jitter != 0, typed(s.Jitter))
	set("priority", s.Task.Priority != 0, s.Task.Priority)
	set("delay", s.Task.Delay != 0, typed(s.Task.Delay))
	set("max_attempts", s.Task.MaxAttempts != 0, s.Task.MaxAttempts)
	set("no_overlap", s.NoOverlap, "yes")
	set("json", json.Valid(s.Task.Payload), "yes")
	return out
}

// fixed reports whether the payload and the headers of a schedule cannot be edited by this user in a form.
func (v *visit) fixed(s schedule.Info) bool {
	t := dbq.Task{Queue: s.Queue, Kind: s.Task.Kind, Payload: s.Task.Payload, Headers: s.Task.Headers}
	if !v.user.Payloads || v.db.redact.Task(&t) || !utf8.Valid(s.Task.Payload) ||
		strings.ContainsAny(string(s.Task.Payload), "\r\x00") {
		return true
	}
	headers, err := parseHeaders(headerLines(s.Task.Headers))
	return err != nil || !maps.Equal(headers, s.Task.Headers)
}

// needSomewhere returns errForbidden if the user may apply an action to no queue of the database.
func (v *visit) needSomewhere(a auth.Action) error {
	if !v.user.MaySome(a, v.db.name) {
		return errForbidden
	}
	return nil
}

// saveSchedule creates or changes a schedule, or shows when it would fire. The form comes back with the errors.
func (c *Console) saveSchedule(v *visit) error {
	form := scheduleForm{Values: map[string]string{}, Errors: map[string]string{}, Revision: v.form("revision")}
	for _, name := range scheduleInputs {
		form.Values[name] = v.form(name)
	}
	for _, name := range []string{"name", "queue", "key", "kind"} {
		form.Values[name] = v.named(name)
	}
	form.Values["json"], form.Values["no_overlap"] = v.form("json"), v.form("no_overlap")
	form.Values["payload"] = strings.ReplaceAll(v.r.FormValue("payload"), "\r\n", "\n") // browsers send CRLF
	if err := v.needSomewhere(auth.Configure); err != nil {
		return err
	}
	var stored schedule.Info
	if form.Revision != "" {
		var err error
		switch stored, err = v.schedule(auth.Configure); {
		case errors.Is(err, dbq.ErrNotFound):
			return v.done(v.path("schedules"), "Nothing was saved: the schedule has been deleted meanwhile.")
		case err != nil:
			return err
		}
		form.Owner, form.Fixed = stored.Owner, v.fixed(stored)
	}
	d := form.schedule(stored)
	if v.form("preview") == "" { // its times need no name and no queue
		form.check(d)
	}
	if form.Fixed && v.user.Payloads && (d.Queue != stored.Queue || d.Task.Kind != stored.Task.Kind) {
		// Redactions depend on both: elsewhere, the page would show the hidden parts.
		form.Errors["queue"] = "The queue and the kind must stay, because the payload stays as it is."
	}
	if len(form.Errors) == 0 {
		if err := v.need(auth.Configure, d.Queue); err != nil {
			return err
		}
	}
	if v.form("preview") != "" {
		return c.previewSchedule(v, form, d)
	}
	var err error
	if len(form.Errors) == 0 {
		err = v.db.schedules.Replace(v.ctx(), form.Revision, d)
	}
	switch {
	case errors.Is(err, schedule.ErrChanged) && form.Revision == "":
		form.Errors["name"] = "A schedule of this name exists already."
	case errors.Is(err, schedule.ErrChanged):
		form.Problem = "Nothing was saved: someone has changed the schedule since this form was opened."
		return v.showSchedule(http.StatusConflict, form)
	case err == nil && len(form.Errors) == 0:
		v.db.changed()
		return v.done(v.path("schedule", "name", d.Name), "The schedule is saved.")
	case err != nil && !form.blame(err):
		return err
	}
	return v.showSchedule(http.StatusUnprocessableEntity, form)
}

// previewSchedule shows the form with the next times of its fields, and saves nothing.
func (c *Console) previewSchedule(v *visit, form scheduleForm, d schedule.Schedule) error {
	now, err := v.db.client.Now(v.ctx())
	if err != nil {
		return err
	}
	if len(form.Errors) == 0 {
		if form.Times, err = schedule.Preview(d, now, 10); err != nil && !form.blame(err) {
			return err
		}
	}
	if len(form.Errors) > 0 {
		return v.showSchedule(http.StatusUnprocessableEntity, form)
	}
	return v.showSchedule(http.StatusOK, form)
}

func (v *visit) showSchedule(status int, form scheduleForm) error {
	title := "New schedule"
	if form.Revision != "" {
		title = "Edit schedule " + form.Values["name"]
	}
	v.show(status, "scheduleform", title, form)
	return nil
}

// blame shows an error beside the field that it names, and reports whether it names one.
func (f scheduleForm) blame(err error) bool {
	var field *schedule.FieldError
	if !errors.As(err, &field) || scheduleInputs[field.Field] == "" {
		return false
	}
	text := strings.TrimPrefix(field.Error(), schedule.ErrDefinition.Error()+": ")
	f.Errors[scheduleInputs[field.Field]] = sentence(text) + "."
	return true
}

// check shows the error of each invalid field that has none yet.
func (f scheduleForm) check(d schedule.Schedule) {
	if (f.Errors["every"] != "" || f.Errors["at"] != "") && d.Every == 0 && d.At.IsZero() {
		d.Cron = cmp.Or(d.Cron, "* * * * *") // in the place of what could not be read
	}
	for _, wrong := range d.Invalid() {
		if f.Errors[scheduleInputs[wrong.Field]] == "" {
			f.blame(wrong)
		}
	}
}

// schedule reads the fields. What cannot be read is in Errors.
func (f scheduleForm) schedule(stored schedule.Info) schedule.Schedule {
	note := func(name string, err error) {
		if err != nil {
			f.Errors[name] = sentence(err.Error()) + "."
		}
	}
	whole := func(name string) int {
		n, err := whole(name, f.Values[name])
		note(name, err)
		return n
	}
	span := func(name string) time.Duration {
		d, err := length(name, f.Values[name])
		note(name, err)
		return d
	}
	d := schedule.Schedule{
		Name: f.Values["name"], Cron: f.Values["cron"], Zone: f.Values["zone"], Every: span("every"),
		Queue: f.Values["queue"], CatchUp: whole("catch_up"), NoOverlap: f.Values["no_overlap"] != "",
		Jitter: span("jitter"),
		Task: dbq.NewTask{Kind: f.Values["kind"], Key: f.Values["key"], Priority: whole("priority"),
			Delay: span("delay"), MaxAttempts: whole("max_attempts")},
	}
	switch {
	case f.Values["catch_up"] == "0":
		d.CatchUp = schedule.SkipMissed
	case d.CatchUp == 1:
		d.CatchUp = 0 // the default
	}
	var err error
	if d.At, err = moment(f.Values["at"]); err != nil {
		note("at", err)
	}
	if f.Fixed {
		d.Task.Payload, d.Task.Headers = stored.Task.Payload, stored.Task.Headers
		return d
	}
	if text := f.Values["payload"]; text != "" {
		d.Task.Payload = []byte(text)
	} else if len(stored.Task.Payload) == 0 {
		d.Task.Payload = stored.Task.Payload // nil and empty are distinct
	}
	if f.Values["json"] != "" && !json.Valid(d.Task.Payload) {
		note("payload", formError("it is not valid JSON"))
	}
	d.Task.Headers, err = parseHeaders(f.Values["headers"])
	note("headers", err)
	return d
}

// moment reads a time with its offset, or one in UTC; empty is zero.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, formError("write a time such as 2030-01-31T08:00:00Z; without an offset it is in UTC")
}
