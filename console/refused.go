package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// refusal is the content of a form whose input is invalid: the message, and the fields as they were entered. The zero
// value is for a form that is shown for the first time.
type refusal struct {
	Refused string // the message
	form    string // the form that was refused, if the page has several
	field   string // the field that is invalid, if the error names one
	visit   *visit
}

// refusal returns the content of the form, if an error says that its input is invalid.
func (v *visit) refusal(form string, err error) (refusal, bool) {
	p, _ := v.problemOf(err)
	if p.Status != http.StatusUnprocessableEntity {
		return refusal{}, false
	}
	var field fieldError
	_ = errors.As(err, &field) // otherwise the message is about the form as a whole
	return refusal{p.Title + ": " + p.Advice, form, field.field, v}, true
}

// status returns the status of the form's page.
func (r refusal) status() int {
	if r.Refused != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// Of returns the message if a form was refused, unless a field of the form shows it.
func (r refusal) Of(form string) string {
	if r.form != form || r.field != "" {
		return ""
	}
	return r.Refused
}

// Value returns a field of a form as it was entered, or the stored value if the form was not refused.
func (r refusal) Value(form, field string, stored any) any {
	if r.form != form || r.Refused == "" {
		return stored
	}
	return strings.ReplaceAll(r.visit.r.FormValue(field), "\r\n", "\n")
}

// Field returns a field of a form for the template: as it was entered, with the message if it is the invalid one, or
// with the stored value if the form was not refused. Numbers and durations of 0 are empty.
func (r refusal) Field(form, name, label, hint string, stored any) formField {
	f := formField{Name: name, Label: label, Hint: hint}
	switch stored := stored.(type) {
	case int:
		if f.Number = true; stored != 0 {
			f.Value = fmt.Sprint(stored)
		}
	case time.Duration:
		f.Value = typed(stored)
	default:
		f.Value = fmt.Sprint(stored)
	}
	f.Value = fmt.Sprint(r.Value(form, name, f.Value))
	if r.form == form && r.field == name {
		f.Error = r.Refused
	}
	return f
}
