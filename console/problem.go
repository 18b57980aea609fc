package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/disclosure"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
)

// problem is the content of an error's page.
type problem struct {
	Status  int
	Title   string
	Advice  string
	Request string // the id under which the log has the reason
}

// problems lists the errors that only a page has, or explains in its own words, the first that matches. Package wire
// has the others.
var problems = []struct {
	err    error
	status int
	title  string
	advice string
}{
	{errNoPage, 404, "There is no such page", "Check the address, or start from the overview."},
	{errForbidden, 403, "Your role does not allow this", "Ask an administrator for another role."},
	{errBadForm, 400, "The form cannot be read", "Nothing was changed. Go back, reload the page and try again."},
	{errBusy, 503, "The server is busy", "Too many pages are open at once. Try again shortly."},
	{errTooMany, 429, "Too many changes at once", "Nothing was changed. Wait a moment and try again."},
	{auth.ErrTooMany, 429, "Too many attempts to sign in", "Try again in a minute."},
	{errLongToken, 422, "The token is too long for cookies",
		fmt.Sprintf("A session has space for %d bytes. Let the identity provider leave out groups or other claims, "+
			"or put a proxy that authenticates before this server.", sessionParts*sessionPart)},
	{auth.ErrUnavailable, 503, "Your credentials cannot be checked", "Try again shortly. The server has logged why."},
	{dbq.ErrNotFound, 404, "It does not exist",
		"It may have been removed, or its retention may have passed. Its audit trail is kept."},
	{disclosure.ErrPart, 403, "The workflow is too large for your role",
		fmt.Sprintf("A page shows %d steps. Only a user of all queues sees a workflow with more.", stepsShown)},
	{context.DeadlineExceeded, 504, "The database took too long", "Try again, or narrow the filter."},
}

// problemOf returns the content of an error's page, and whether the log must have the reason.
func (v *visit) problemOf(err error) (p problem, log bool) {
	for _, k := range problems {
		if errors.Is(err, k.err) {
			// A flood of requests is no reason for a flood of lines.
			return problem{k.status, k.title, k.advice, ""}, k.status >= http.StatusInternalServerError && k.err != errBusy
		}
	}
	var large *http.MaxBytesError
	var all fieldErrors
	var field formError
	switch {
	case errors.As(err, &large):
		return problem{http.StatusRequestEntityTooLarge, "The form is too large", "Enqueue large payloads by program.", ""},
			false
	case errors.As(err, &all):
		return problem{http.StatusUnprocessableEntity, "The input is invalid", all.Error() + ".", ""}, false
	case errors.As(err, &field):
		return problem{http.StatusUnprocessableEntity, "The input is invalid", string(field) + ".", ""}, false
	case errors.Is(err, dbq.ErrInvalid):
		return problem{http.StatusUnprocessableEntity, "The input is invalid", reason(err) + ".", ""}, false
	}
	for _, k := range wire.Sentinels() {
		if errors.Is(err, k.Err) {
			return problem{k.Status, sentence(k.Title), k.Detail, ""}, k.Status >= http.StatusInternalServerError
		}
	}
	return problem{http.StatusInternalServerError, "The page failed", "The server's log has the reason.", v.request}, true
}

// goDuration matches a duration as Go writes it, such as 8760h0m0s.
var goDuration = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ns|µs|ms|s)\b`)

// reason returns why an input is refused, without what only programs need: the call, and the class of the error.
func reason(err error) string {
	var call *dbq.Error
	if errors.As(err, &call) {
		err = call.Err
	}
	text := err.Error()
	for _, k := range wire.Sentinels() {
		if class := k.Err.Error() + ": "; errors.Is(err, k.Err) && strings.HasPrefix(text, class) {
			text = text[len(class):]
			break
		}
	}
	return goDuration.ReplaceAllStringFunc(text, func(written string) string {
		d, err := time.ParseDuration(written)
		if err != nil {
			return written
		}
		return duration.Format(d)
	})
}

// sentence returns a text with a capital at its beginning.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// formError is an error about an invalid field of a form.
type formError string

// Error returns the sentence.
func (e formError) Error() string { return string(e) }

// fieldError is a formError about one field.
type fieldError struct {
	field string // its name in the form
	formError
}

// Unwrap returns the formError.
func (e fieldError) Unwrap() error { return e.formError }

// label returns the name of a field in a sentence.
func label(field string) string {
	switch field {
	case "older":
		return "in its state for at least"
	case "newer":
		return "in its state for at most"
	}
	return strings.ReplaceAll(field, "_", " ")
}

// showError answers with the page of an error.
func (v *visit) showError(err error) {
	p, log := v.problemOf(err)
	if err == errBusy {
		v.w.Header().Set("Retry-After", "1")
	}
	if log && v.r.Context().Err() != context.Canceled { // then the visitor has gone
		v.console.cfg.Logger.Error("console: the page failed", "request", v.request, "path", v.r.URL.Path, "err", err)
	}
	v.show(p.Status, "error", p.Title, p)
}
