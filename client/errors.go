package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
)

// Problem is an error that the server has reported. Calls return it within a *dbq.Error; find it with errors.As.
// errors.Is matches the errors of package dbq that it stands for, such as dbq.ErrDuplicate for "duplicate", and
// dbq.ErrDenied for "unauthenticated".
type Problem struct {
	// Type is the problem's name, as docs/http.md lists them, such as "lease-lost". It is "" if the response is not one
	// of dbq serve, as from a proxy.
	Type string
	// Status is the status of the response.
	Status int
	// RequestID is the id under which the server has logged the request; "" if there is none.
	RequestID string
	// RetryAfter is how long the server requests to wait, at most a minute; zero if it does not.
	RetryAfter time.Duration

	text  string
	means []error
}

// Error describes the failure and its correction. It never contains a token.
func (p *Problem) Error() string { return p.text }

// Unwrap returns the errors of package dbq.
func (p *Problem) Unwrap() []error { return p.means }

// place and message match the shown parts of the fields of a wire.
var (
	place   = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,100}$`)
	message = regexp.MustCompile(`^[A-Za-z0-9_"(){}%/=<>.,;: -]{1,200}$`)
	idText  = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)
)

// maxFields limits how many fields of a problem are shown.
const maxFields = 3

// read fills a problem from the body of a response, if it is one of dbq. The token must not be shown.
func (p *Problem) read(body *wire.Problem, token string) {
	name, ours := strings.CutPrefix(body.Type, wire.Prefix)
	k, known := wire.ByName(name)
	if !ours || !known {
		return
	}
	p.Type, p.means = name, k.Errors()
	if k.Err == dbq.ErrClosed { // that is the caller's own client
		p.means = []error{dbq.ErrUnavailable}
	}
	if p.Status == 0 { // of a task in a list
		p.Status = k.Status
	}
	shown := func(text string) bool { return token == "" || !strings.Contains(text, token) }
	if idText.MatchString(body.RequestID) && shown(body.RequestID) {
		p.RequestID = body.RequestID
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d): %s", k.Title, p.Status, k.Detail)
	for i, f := range body.Errors {
		if i < maxFields && place.MatchString(f.Location) && message.MatchString(f.Message) && shown(f.Location) &&
			shown(f.Message) {
			fmt.Fprintf(&b, " %s: %s.", f.Location, f.Message)
		}
	}
	if p.RequestID != "" && k.Status >= http.StatusInternalServerError {
		fmt.Fprintf(&b, " The request's id is %s.", p.RequestID)
	}
	p.text = b.String()
}

// readStatus fills a problem that has only a status.
func (p *Problem) readStatus() {
	p.text = fmt.Sprintf("the response is %d %s and not one of dbq serve; check URL and what is in front of the server",
		p.Status, http.StatusText(p.Status))
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		p.means = []error{dbq.ErrDenied}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		p.means = []error{dbq.ErrUnavailable}
	default:
		if p.Status >= http.StatusInternalServerError || p.Status == http.StatusRequestTimeout {
			p.means = []error{dbq.ErrMayHaveHappened}
		}
	}
}

// taskError returns the error for one task of a request, or nil.
func taskError(body *wire.Problem) error {
	if body == nil {
		return nil
	}
	p := &Problem{}
	if p.read(body, ""); p.Type == "" {
		p.Status, p.means = http.StatusInternalServerError, []error{dbq.ErrMayHaveHappened}
		p.text = "the response has a problem of an unknown type; update this program"
	}
	return p
}

// lostError is the error of a request without a response that can be used. The server may have served it.
type lostError struct {
	method string
	text   string
	cause  error // the end of a context or errTooLarge, or nil
}

func (e *lostError) Error() string { return e.text }

// Unwrap returns dbq.ErrUnavailable for a request that changes nothing, and otherwise dbq.ErrMayHaveHappened.
func (e *lostError) Unwrap() []error {
	sentinel := dbq.ErrMayHaveHappened
	if e.method == http.MethodGet {
		sentinel = dbq.ErrUnavailable
	}
	if e.cause == nil {
		return []error{sentinel}
	}
	return []error{sentinel, e.cause}
}

// unsentError is the error of a request that has not reached the server.
type unsentError struct{ err error }

func (e *unsentError) Error() string   { return e.err.Error() }
func (e *unsentError) Unwrap() []error { return []error{dbq.ErrUnavailable, e.err} }

var (
	errTooLarge = errors.New("the response is too large")
	// errEncode is for values that JSON cannot represent. It matches dbq.ErrInvalid.
	errEncode = fmt.Errorf("%w: it cannot be sent as JSON", dbq.ErrInvalid)
)

// failed returns the error of a request whose response did not arrive, without the URL and the token.
func (c *Client) failed(ctx context.Context, method, token string, err error) error {
	var outer *url.Error // its text has the URL
	if errors.As(err, &outer) {
		err = outer.Err
	}
	text := err.Error()
	if token != "" {
		text = strings.ReplaceAll(text, token, "[redacted]")
	}
	if ended := ctx.Err(); ended != nil {
		if errors.Is(ended, context.DeadlineExceeded) {
			text = "it does not answer in time"
		}
		return &lostError{method, fmt.Sprintf("the server at %s: %s", c.host, text), ended}
	}
	text = fmt.Sprintf("the server at %s cannot be reached: %s", c.host, bounds.Brief(text))
	var op *net.OpError
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") || errors.As(err, &untrusted) {
		return &unsentError{errors.New(text)}
	}
	return &lostError{method, text, nil}
}

// isTransient reports whether a request that failed may succeed if it is repeated.
func isTransient(err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		switch p.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		}
		return p.Status >= http.StatusInternalServerError || p.Type == wire.BadBody.Name || errors.Is(p, dbq.ErrLocked)
	}
	return !errors.Is(err, dbq.ErrInvalid)
}

// mayHaveHappened reports whether a request that failed may have changed something.
func mayHaveHappened(err error) bool { return errors.Is(err, dbq.ErrMayHaveHappened) }

// wrap makes the error of a call a *dbq.Error.
func wrap(op, queue string, task uuid.UUID, err error) error {
	var done *dbq.Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	return &dbq.Error{Op: op, Queue: queue, TaskID: task, Class: classOf(err), Err: err}
}

// classOf returns the class of the database's error for which the server reported err, as far as package worker needs
// it. Unknown is for an error that may be about one of the tasks of a request.
func classOf(err error) dialect.Class {
	var p *Problem
	switch {
	case errors.Is(err, dbq.ErrDenied):
		return dialect.Denied
	case errors.As(err, &p) && p.Status == http.StatusInternalServerError, !isTransient(err):
		return dialect.Unknown
	case mayHaveHappened(err):
		return dialect.Ambiguous
	}
	return dialect.Unavailable
}
