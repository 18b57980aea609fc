package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/callers"
	"github.com/dbq-go/dbq/internal/wire"
)

type requestKey struct{}

// request has the log attributes of one HTTP request and the memory reserved for it.
type request struct {
	id, route       string
	database, queue string // of the path
	caller          string
	reason          string       // why it was refused: the problem's name, and where it is
	reservation     *reservation // of an operation
}

// refused notes why the request was refused.
func (r *request) refused(p *wire.Problem) {
	if r == nil {
		return
	}
	r.reason = strings.TrimPrefix(p.Type, wire.Prefix)
	for _, f := range p.Errors[:min(len(p.Errors), 3)] {
		r.reason += " " + f.Location
	}
}

// attrs returns the known facts about a request, as attributes of a line.
func (r *request) attrs() (out []any) {
	for _, a := range [][2]string{
		{"database", r.database}, {"queue", r.queue}, {"caller", r.caller}, {"reason", r.reason},
	} {
		if a[1] != "" {
			out = append(out, a[0], bounds.Brief(a[1]))
		}
	}
	return out
}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// requestID returns the id of a request.
func requestID(ctx context.Context) string {
	if r := requestOf(ctx); r != nil {
		return r.id
	}
	return ""
}

// givenID matches a caller's X-Request-Id that is used.
var givenID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// response observes the response to a caller. The status is sent with the first part of the body, or at the end: until
// then, a handler that fails can be answered with a problem.
type response struct {
	http.ResponseWriter
	status int
	sent   bool
}

// WriteHeader keeps the status.
func (w *response) WriteHeader(status int) { w.status = status }

// Write sends a part of the body.
func (w *response) Write(b []byte) (int, error) {
	w.send()
	return w.ResponseWriter.Write(b)
}

// send sends the status, once.
func (w *response) send() {
	if w.sent {
		return
	}
	w.status, w.sent = cmp.Or(w.status, http.StatusOK), true
	w.ResponseWriter.WriteHeader(w.status)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observed gives each request an id, logs it, and answers for a handler that panics.
func (a *API) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start, id := time.Now(), r.Header.Get("X-Request-Id")
		if !givenID.MatchString(id) {
			id = rand.Text()
		}
		w := &response{ResponseWriter: rw}
		// A request that is refused before its body is read must not wait for the body either.
		_ = http.NewResponseController(rw).SetReadDeadline(start.Add(a.cfg.BodyTimeout)) // not every server has it
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		info := &request{id: id, route: r.Pattern}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, info))
		defer func() {
			if cause := recover(); cause == http.ErrAbortHandler {
				panic(cause)
			} else if cause != nil {
				a.cfg.Logger.Error("api: a handler panicked", "request", id, "cause", cause, "stack", string(debug.Stack()))
				if !w.sent {
					refuse(w, r, wire.Internal.Problem())
				}
			}
			w.send()
			a.cfg.Logger.Info("api: request", append([]any{"request", id, "method", r.Method, "route", info.route,
				"status", w.status, "took", time.Since(start).String()}, info.attrs()...)...)
		}()
		next.ServeHTTP(w, r)
	})
}

// refuse responds with a problem.
func refuse(w http.ResponseWriter, r *http.Request, p *wire.Problem) {
	p.RequestID = requestID(r.Context())
	requestOf(r.Context()).refused(p)
	p.Respond(w)
}

// unauthorized answers a request that auth.Protect refuses.
func (a *API) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, auth.ErrCrossOrigin):
		refuse(w, r, wire.CrossOrigin.Problem())
	case errors.Is(err, auth.ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, r, wire.Unauthenticated.Problem())
	case errors.Is(err, auth.ErrTooMany):
		refuse(w, r, wire.TooMany.Problem())
	default:
		p := problemOf(err)
		if errors.Is(err, auth.ErrUnavailable) {
			p = wire.Unchecked.Problem()
		}
		a.logFailure(r.Context(), p, err)
		refuse(w, r, p)
	}
}

// Protect returns a handler that calls next, such as a handler for metrics, only for callers that may apply the
// action to all queues of all databases.
func (a *API) Protect(action auth.Action, next http.Handler) http.Handler {
	return a.observed(auth.Protect(a.cfg.Authenticator, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, _ := auth.FromContext(r.Context()); !p.May(action, "", "") {
			refuse(w, r, wire.Forbidden.Problem())
			return
		}
		a.limited(next).ServeHTTP(w, r)
	}), a.unauthorized))
}

// attributed gives the changes of a request their origin in the audit.
func attributed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.FromContext(r.Context())
		requestOf(r.Context()).caller = p.Name
		origin := admin.Origin{
			By: p.Name, Program: "api", Address: callers.Address(r), Request: requestID(r.Context()),
		}
		next.ServeHTTP(w, r.WithContext(admin.WithOrigin(r.Context(), origin)))
	})
}

// Routes that have bounds of their own.
const (
	patternCheckout = "POST " + pathQueue + "/checkout"
	patternWait     = "GET " + pathTask + "/wait"
	patternSeries   = "GET " + pathDatabase + "/series"
)

// seriesWait is how long a series waits until another one of the database has been read. It may take 100 MB of memory.
const seriesWait = 5 * time.Second

// maxSmallBody is the largest body of requests that wait, many of which may run, and of those that need none. Any
// number of requests may receive as much; beyond it, a body counts for Config.MaxMemory.
const maxSmallBody = 64 << 10

// route has the checks of the requests of a pattern of the mux, which run before its handler.
type route struct {
	pattern string
	action  auth.Action
	body    bodyCheck
}

// router is a mux that checks and bounds the requests of each route.
type router struct {
	*http.ServeMux
	api    *API
	routes map[string]*route // by pattern
}

// HandleFunc registers the handler of a pattern.
func (m *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	to := &route{pattern: pattern}
	m.routes[pattern] = to
	m.ServeMux.Handle(pattern, m.api.bounded(to, http.HandlerFunc(handler)))
}

// permitted refuses a caller that may not apply a route's action to any queue that the request can be about.
func (a *API) permitted(r *http.Request, to *route) (err error) {
	switch database, queue := r.PathValue("database"), r.PathValue("queue"); {
	case queue != "":
		_, _, err = a.open(r.Context(), to.action, database, queue)
	case database != "":
		_, _, err = a.anyQueue(r.Context(), to.action, database)
	}
	return err
}

// bounded checks a request, and limits how many run at once, how long they take, and how much memory they take. A
// request takes a place of its database when its body has arrived.
func (a *API) bounded(to *route, next http.Handler) http.Handler {
	waits, timeout, maxBody := false, a.cfg.Timeout, a.cfg.MaxBody
	switch to.pattern {
	case patternCheckout, patternWait:
		waits, timeout, maxBody = true, timeout+a.cfg.MaxWait, min(maxBody, maxSmallBody)
	case patternSeries:
		waits = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.permitted(r, to); err != nil {
			refuse(w, r, problemOf(err))
			return
		}
		if p := cmp.Or(checkQuery(r), checkKey(r), checkMediaType(r)); p != nil {
			refuse(w, r, p)
			return
		}
		// A caller of two databases counts as two: one that does not answer leaves it as much of the other.
		caller, _ := auth.FromContext(r.Context())
		reserved := &reservation{
			shared: a.budget, caller: r.PathValue("database") + "/" + caller.Name, most: a.cfg.MaxMemory / 2,
		}
		defer reserved.resize(0)
		requestOf(r.Context()).reservation = reserved
		body, p := readBody(w, r, maxBody, reserved)
		if p != nil {
			refuse(w, r, p)
			return
		}
		d := a.databases[r.PathValue("database")]
		if d != nil {
			places := d.running
			if waits {
				places = d.waiting
			}
			if !places.Take(caller.Name, 1) {
				refuse(w, r, wire.Busy.Problem())
				return
			}
			defer places.Release(caller.Name, 1)
		}
		if to.body.schema != nil {
			if p := to.body.check(body, reserved); p != nil {
				refuse(w, r, p)
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
		if !hasNoBody(r.Method) { // it may have changed something, and has a short response or has counted it
			next.ServeHTTP(w, r)
			return
		}
		response := &kept{ResponseWriter: w}
		if to.pattern != patternSeries {
			next.ServeHTTP(response, r)
		} else if err := d.alone(ctx, func() { next.ServeHTTP(response, r) }); err != nil {
			refuse(w, r, problemOf(err))
			return
		}
		if p := reserved.resize(int64(len(response.text))); p != nil {
			refuse(w, r, p)
			return
		}
		_, _ = w.Write(response.text) // the caller may be gone
	})
}

// alone calls f while no other series of the database is read, unless others are read for too long.
func (d *database) alone(ctx context.Context, f func()) error {
	if err := take(ctx, d.reading, seriesWait); err != nil {
		return err
	}
	defer func() { <-d.reading }()
	f()
	return nil
}

// hasNoBody reports whether requests of a method need no body.
func hasNoBody(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete
}

// checkQuery refuses a query with a part that cannot be read, which others would leave out: without a filter, a request
// applies to more. huma refuses unknown parameters.
func checkQuery(r *http.Request) *wire.Problem {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wire.BadRequest.Problem(wire.At("query", "a part of it is not of the form name=value, percent-encoded"))
	}
	for _, values := range query {
		if len(values) > 1 {
			return wire.BadRequest.Problem(wire.At("query", "a parameter is repeated; put commas between several states"))
		}
	}
	return nil
}

// checkKey refuses an Idempotency-Key that would make no repeated request safe.
func checkKey(r *http.Request) *wire.Problem {
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 1 || len(keys) == 1 && keys[0] == "" {
		return wire.BadRequest.Problem(wire.At("header.Idempotency-Key", "it is empty or repeated"))
	}
	return nil
}

// checkMediaType refuses bodies of other media types. A browser sends those to another site without asking it.
func checkMediaType(r *http.Request) *wire.Problem {
	if hasNoBody(r.Method) {
		return nil
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != "application/json" {
		return wire.WrongMediaType.Problem()
	}
	return nil
}

// routed answers requests without a route with problems, where the mux would answer with text or a redirection.
func (a *API) routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path {
			refuse(w, r, wire.NoRoute.Problem())
			return
		}
		handler, pattern := mux.Handler(r)
		if pattern != "" {
			info := requestOf(r.Context())
			info.route = pattern
			mux.ServeHTTP(w, r)
			if info.database = r.PathValue("database"); a.databases[info.database] != nil {
				info.queue = r.PathValue("queue")
			} else { // it may be anything, such as a token in the wrong place
				info.database = ""
			}
			return
		}
		asked := probe{header: http.Header{}}
		handler.ServeHTTP(&asked, r)
		if asked.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", asked.header.Get("Allow"))
			refuse(w, r, wire.NoMethod.Problem())
			return
		}
		refuse(w, r, wire.NoRoute.Problem())
	})
}

// probe receives the mux's own response.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// logFailure logs why a request failed if an operator must look into it: not if the caller is gone, too much is
// running or the server stops.
func (a *API) logFailure(ctx context.Context, p *wire.Problem, err error) {
	requestOf(ctx).refused(p)
	if p.Status < http.StatusInternalServerError || ctx.Err() == context.Canceled || errors.Is(err, dbq.ErrClosed) ||
		p.Type == wire.Busy.Problem().Type {
		return
	}
	a.cfg.Logger.Error("api: the request failed", "request", requestID(ctx), "err", err)
}
