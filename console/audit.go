package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/google/uuid"
)

// auditView is the content of the audit's page.
type auditView struct {
	refusal
	Queue, Action, By, Task, Since, Until string // the filter

	Entries []admin.AuditEntry
	Upto    time.Time // of the last entry that was looked at, if the page is not full
	Next    string

	clock clock // reads the times of the filter
}

// Time returns a time of the filter for the template. Browsers show nothing in an input for times that has other text.
func (a auditView) Time(name, label, value string) formField {
	if !a.clock.local {
		label += ", in UTC"
	}
	f := a.Field("filter", name, label, "2026-01-31T16:30", value)
	if _, err := a.clock.typed(name, f.Value); err == nil {
		f.Type = "datetime-local"
	}
	return f
}

// typed reads a time that was typed in the zone of the page; empty is zero. A browser adds the seconds only if they are
// not 0.
func (c clock) typed(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, c.zone); err == nil {
			return at, nil
		}
	}
	zone := "in UTC"
	if c.local {
		zone = "of your time zone"
	}
	return time.Time{}, fieldError{field, formError(field + ": write a time " + zone + ", such as 2026-01-31T16:30")}
}

// auditPage lists the changes of operators, the newest first, or shows the filter again if it is invalid.
func (c *Console) auditPage(v *visit) error {
	page := auditView{Queue: v.named("queue"), Action: v.form("action"), By: v.named("by"), Task: v.form("task"),
		Since: v.form("since"), Until: v.form("until"), clock: v.clock()}
	err := page.fill(v)
	again, ok := v.refusal("filter", err)
	if err != nil && !ok {
		return err
	}
	page.refusal = again
	v.show(again.status(), "audit", "Audit", page)
	return nil
}

// Filtered reports whether the filter has more than the queue.
func (a auditView) Filtered() bool {
	return a.Refused != "" || a.Action+a.By+a.Task+a.Since+a.Until != ""
}

// fill reads the entries of the filter.
func (a *auditView) fill(v *visit) error {
	f := admin.AuditFilter{Queue: a.Queue, Action: a.Action, By: a.By, Limit: pageSize}
	if err := v.need(auth.Administer, f.Queue); err != nil {
		return err
	}
	var err, sinceErr, untilErr, taskErr error
	f.Since, sinceErr = a.clock.typed("since", a.Since)
	f.Until, untilErr = a.clock.typed("until", a.Until)
	if a.Task != "" {
		if f.TaskID, err = uuid.Parse(a.Task); err != nil {
			taskErr = fieldError{"task", "the task is not a UUID"}
		}
	}
	if err = invalid(taskErr, sinceErr, untilErr); err != nil {
		return err
	}
	if at := v.form("at"); at != "" {
		if f.Before, err = uuid.Parse(at); err != nil {
			return errNoPage
		}
	}
	found, err := v.db.admin.Audit(v.ctx(), f)
	if err != nil {
		return err
	}
	a.Entries, a.Upto = v.sees().Audit(found.Entries), found.Upto
	if found.More {
		a.Next = v.path("audit", "queue", a.Queue, "action", a.Action, "by", a.By, "task", a.Task,
			"since", a.Since, "until", a.Until, "at", found.Next.String())
	}
	return nil
}

// difference is a value that a change has set, removed or replaced.
type difference struct{ Name, Before, After string }

// differences compares two JSON values by their fields.
func differences(before, after json.RawMessage) (out []difference) {
	was, is := flat(before), flat(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was[name] != is[name] {
			out = append(out, difference{name, was[name], is[name]})
		}
	}
	return out
}

// Words returns the name of the field in words.
func (d difference) Words() string {
	return label(strings.TrimSuffix(strings.ReplaceAll(d.Name, ".", " "), "_seconds"))
}

// Value writes a value of the audit as the pages write it: a duration with its unit, a time by the page's clock.
func (c clock) Value(field, value string) any {
	seconds, notSeconds := strconv.ParseFloat(value, 64)
	at, notTime := time.Parse(time.RFC3339, value)
	words := map[string]string{"true": "yes", "false": "no"}
	for _, s := range states {
		words[s.String()] = strings.ToLower(stateWord(s))
	}
	switch {
	case strings.HasSuffix(field, "_seconds") && notSeconds == nil && seconds < 0:
		return duration.ForeverText
	case strings.HasSuffix(field, "_seconds") && notSeconds == nil && seconds > 0:
		return typed(time.Duration(seconds * float64(time.Second)))
	case notTime == nil:
		return c.Time(at)
	case field == "cron" && cronWords(value) != "":
		return cronWords(value) + " (" + value + ")"
	}
	return cmp.Or(words[value], value)
}

// flat returns the values of a JSON text by their names. Those of an object within another one are outer.inner.
func flat(text json.RawMessage) map[string]string {
	out := map[string]string{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if d.Decode(&value) == nil {
		flatten("", value, out)
	}
	return out
}

func flatten(name string, value any, out map[string]string) {
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for inner, v := range value {
			flatten(strings.TrimPrefix(name+"."+inner, "."), v, out)
		}
	case string:
		out[name] = value
	case []any:
		var parts []string
		for _, v := range value {
			one := map[string]string{}
			flatten("", v, one)
			parts = append(parts, one[""])
		}
		out[name] = strings.Join(parts, ", ")
	default:
		b, _ := json.Marshal(value) // it was JSON
		out[name] = string(b)
	}
}
