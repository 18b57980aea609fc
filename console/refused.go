package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// refusal is the content of a form whose input is invalid: the messages, and the fields as they were entered. The zero
// value is for a form that is shown for the first time.
type refusal struct {
	Refused string       // the message about the form as a whole
	form    string       // the form that was refused, if the page has several
	wrong   []fieldError // the fields that are invalid
	visit   *visit
}

// refusal returns the content of the form, if an error says that its input is invalid.
func (v *visit) refusal(form string, err error) (refusal, bool) {
	p, _ := v.problemOf(err)
	if p.Status != http.StatusUnprocessableEntity {
		return refusal{}, false
	}
	r := refusal{Refused: p.Title + ": " + p.Advice, form: form, visit: v}
	r.blame(err)
	return r, true
}

// blame sets the invalid fields that an error names, if it names any.
func (r *refusal) blame(err error) {
	var all fieldErrors
	var one fieldError
	switch {
	case errors.As(err, &all):
		r.wrong = all
	case errors.As(err, &one):
		r.wrong = []fieldError{one}
	default:
		return
	}
	if r.Refused = "Nothing was changed: one field needs a correction."; len(r.wrong) > 1 {
		r.Refused = fmt.Sprintf("Nothing was changed: %d fields need a correction.", len(r.wrong))
	}
}

// status returns the status of the form's page.
func (r refusal) status() int {
	if r.Refused != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// Form returns the form that was refused, or "".
func (r refusal) Form() string {
	if r.Refused == "" {
		return ""
	}
	return r.form
}

// Of returns the message if a form was refused, unless fields of the form show theirs.
func (r refusal) Of(form string) string {
	if r.form != form || len(r.wrong) > 0 {
		return ""
	}
	return r.Refused
}

// Wrong returns the invalid fields of a form, for a list above it that leads to them.
func (r refusal) Wrong(form string) (out []formField) {
	if r.form != form {
		return nil
	}
	for _, f := range r.wrong {
		out = append(out, formField{Name: f.field, Label: sentence(label(f.field)), Error: f.message()})
	}
	return out
}

// Value returns a field of a form as it was entered, or the stored value if the form was not refused.
func (r refusal) Value(form, field string, stored any) any {
	if r.form != form || r.Refused == "" {
		return stored
	}
	return strings.ReplaceAll(r.visit.r.FormValue(field), "\r\n", "\n")
}

// Field returns a field of a form for the template: as it was entered, with its message if it is invalid, or with the
// stored value if the form was not refused. Numbers and durations of 0 are empty.
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
	for i, wrong := range r.wrong {
		if r.form == form && wrong.field == name {
			f.Error, f.Later = wrong.message(), i > 0
		}
	}
	return f
}

// fieldErrors are the errors of all invalid fields of a form, in its order.
type fieldErrors []fieldError

// Error returns the sentences.
func (e fieldErrors) Error() string {
	var texts []string
	for _, one := range e {
		texts = append(texts, one.message())
	}
	return strings.TrimSuffix(strings.Join(texts, " "), ".")
}

// message returns the problem of the field, as a sentence.
func (e fieldError) message() string { return sentence(string(e.formError)) + "." }

// invalid returns the errors of all fields together, one for each field, or the first error that is about no field.
func invalid(errs ...error) error {
	var all fieldErrors
	for _, err := range errs {
		var some fieldErrors
		var one fieldError
		switch {
		case err == nil:
			continue
		case errors.As(err, &some):
		case errors.As(err, &one):
			some = fieldErrors{one}
		default:
			return err
		}
		for _, one := range some {
			if !all.has(one.field) {
				all = append(all, one)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (e fieldErrors) has(field string) bool {
	for _, one := range e {
		if one.field == field {
			return true
		}
	}
	return false
}
