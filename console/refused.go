package console

import (
	"net/http"
	"strings"
)

// refusal is what a form shows again when its input is invalid: the message, and the fields as they were entered.
// The zero value is that of a form that is shown for the first time.
type refusal struct {
	Refused string // the message
	form    string // the form that was refused, if the page has several
	visit   *visit
}

// refusal returns what a form shows again, if an error says that its input is invalid.
func (v *visit) refusal(form string, err error) (refusal, bool) {
	p, _ := v.problemOf(err)
	if p.Status != http.StatusUnprocessableEntity {
		return refusal{}, false
	}
	return refusal{p.Title + ": " + p.Advice, form, v}, true
}

// status returns the status of the form's page.
func (r refusal) status() int {
	if r.Refused != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// Of returns the message if a form was refused.
func (r refusal) Of(form string) string {
	if r.form != form {
		return ""
	}
	return r.Refused
}

// Value returns a field of a form as it was entered, or the stored value if the form was not refused.
func (r refusal) Value(form, field string, stored any) any {
	if r.Of(form) == "" {
		return stored
	}
	return strings.ReplaceAll(r.visit.r.FormValue(field), "\r\n", "\n")
}
