// Package auth authenticates the callers of dbq's HTTP API and decides what they may do.
//
// An Authenticator returns the Principal of a request. There are four: Tokens checks bearer tokens that are stored in
// the database. Proxy trusts a proxy that has authenticated the user. Loopback accepts calls from the same machine.
// Package auth/oidc verifies tokens of an identity provider. A Chain tries several. Protect puts an Authenticator in
// front of a handler, which gets the principal from FromContext. Principal.May reports whether an action is allowed.
package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
)

// Role determines what a principal may do. Operator includes the three roles before it, and Admin includes Operator.
type Role string

// The roles.
const (
	Viewer    Role = "viewer"    // reads
	Trigger   Role = "trigger"   // also enqueues tasks, checks them out and settles them
	Responder Role = "responder" // reads, enqueues, and changes tasks of others; removes, settles and configures nothing
	Operator  Role = "operator"  // also removes tasks of others, and configures queues
	Admin     Role = "admin"     // also manages tokens and reads the audit
)

// Action is a kind of call.
type Action string

// The actions.
const (
	Read       Action = "read"      // lists, counts and shows
	Enqueue    Action = "enqueue"   // adds tasks
	Work       Action = "work"      // checks out tasks with their payloads, extends leases, settles, signals steps
	Operate    Action = "operate"   // applies operators' events that can be undone; pauses and resumes; runs schedules
	Delete     Action = "delete"    // purges, finishes and cleans
	Configure  Action = "configure" // changes settings and limits; puts and deletes schedules; commands workers
	Administer Action = "admin"     // manages tokens, reads the audit
)

// roles has the roles, and mayDo what each may do. Responder does not include Work: a caller that checks tasks out gets
// their payloads, and can end and remove them.
var (
	roles = []Role{Viewer, Trigger, Responder, Operator, Admin}
	mayDo = map[Role][]Action{
		Viewer:    {Read},
		Trigger:   {Read, Enqueue, Work},
		Responder: {Read, Enqueue, Operate},
		Operator:  {Read, Enqueue, Work, Operate, Delete, Configure},
		Admin:     {Read, Enqueue, Work, Operate, Delete, Configure, Administer},
	}
)

// roleNames lists the roles for messages.
const roleNames = "viewer, trigger, responder, operator or admin"

// Roles returns the roles, from the one that may do the least.
func Roles() []Role { return slices.Clone(roles) }

// UnmarshalText reads the name of a role.
func (r *Role) UnmarshalText(b []byte) error {
	if !slices.Contains(roles, Role(b)) {
		return errors.New("the role must be " + roleNames)
	}
	*r = Role(b)
	return nil
}

// may reports whether a role includes an action. An unknown role or action includes nothing.
func (r Role) may(a Action) bool { return slices.Contains(mayDo[r], a) }

// Principal is an authenticated caller. The zero value may do nothing.
type Principal struct {
	// Name identifies the caller in the audit, such as "token:deploy" or "ann@example.com".
	Name string
	Role Role
	// Queues are the only queues that the caller may touch, and Databases the only databases. Empty means all.
	Queues    []string
	Databases []string
	// Payloads lets the caller see payloads, headers, results and the texts of errors when it reads tasks. Work hands
	// out payloads without it.
	Payloads bool
}

// May reports whether the caller may apply an action to a queue of a database. An empty queue means all queues, and
// an empty database all databases: only a principal without that restriction may act on them.
func (p Principal) May(a Action, database, queue string) bool {
	return p.Role.may(a) && within(p.Databases, database) && within(p.Queues, queue)
}

// MaySome reports whether the caller may apply an action to at least one queue of a database.
func (p Principal) MaySome(a Action, database string) bool {
	return p.Role.may(a) && within(p.Databases, database)
}

// within reports whether a name is one of those allowed.
func within(allowed []string, name string) bool {
	return len(allowed) == 0 || name != "" && slices.Contains(allowed, name)
}

// ErrUnauthenticated is returned by an Authenticator for a request without valid credentials. The text is the same
// for missing and for wrong credentials.
var ErrUnauthenticated = errors.New("valid credentials are required")

// ErrTooMany is returned by an Authenticator that checks unknown credentials at a limited rate, if it is exceeded.
var ErrTooMany = errors.New("too many unknown credentials; repeat the request later")

// ErrUnavailable is matched by the error of an Authenticator that needs another server, such as an identity provider,
// if that server does not answer.
var ErrUnavailable = errors.New("credentials cannot be checked now")

// errRefused is ErrUnauthenticated for credentials of this kind that are wrong: a Chain does not try the next kind.
var errRefused = refusedError{}

type refusedError struct{}

func (refusedError) Error() string        { return ErrUnauthenticated.Error() }
func (refusedError) Is(target error) bool { return target == ErrUnauthenticated }

// Refused returns the error for wrong credentials of a kind that the Authenticator recognizes as its own. It matches
// ErrUnauthenticated, and makes a Chain stop instead of trying its next Authenticator.
func Refused() error { return errRefused }

// Authenticator finds the principal of a request.
type Authenticator interface {
	// Authenticate returns ErrUnauthenticated if the credentials are missing or wrong. Any other error means that they
	// could not be checked. It is called concurrently.
	Authenticate(r *http.Request) (Principal, error)
}

// Chain tries its authenticators in order, and returns the first principal. It ends at the first error that is not
// ErrUnauthenticated, and at wrong credentials that one of them recognizes as its own kind. An empty Chain refuses
// every request.
type Chain []Authenticator

// Authenticate implements Authenticator.
func (c Chain) Authenticate(r *http.Request) (Principal, error) {
	for _, a := range c {
		p, err := a.Authenticate(r)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, ErrUnauthenticated) || errors.Is(err, errRefused) {
			return Principal{}, err
		}
	}
	return Principal{}, ErrUnauthenticated
}

type principalKey struct{}

// NewContext returns a context with the principal of a request.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the principal of a request's context. Without one, it returns the zero Principal, which may do
// nothing.
func FromContext(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}

// ErrCrossOrigin is returned for a change that a browser sends from a page of another site.
var ErrCrossOrigin = errors.New("a change must come from a page of this server")

// Protect authenticates each request before it calls next, which gets the principal from FromContext. It refuses
// changes that a browser sends from a page of another site (http.CrossOriginProtection), even with valid credentials,
// because a browser can add credentials automatically. Protect calls refuse to answer a refused request, with
// ErrCrossOrigin, ErrUnauthenticated or, if the credentials could not be checked, another error.
func Protect(a Authenticator, next http.Handler,
	refuse func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	var origins http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origins.Check(r) != nil {
			refuse(w, r, ErrCrossOrigin)
			return
		}
		p, err := a.Authenticate(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), p)))
	})
}
