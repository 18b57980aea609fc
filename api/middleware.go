package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

type requestKey struct{}

// request is what a log line says about a request.
type request struct{ id, route string }

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

// response observes what is sent to a caller.
type response struct {
	http.ResponseWriter
	status int
}

// WriteHeader sends the status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
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
				if w.status == 0 {
					refuse(w, r, internal.problem())
				}
			}
			a.cfg.Logger.Info("api: request", "request", id, "method", r.Method, "route", info.route, "status", w.status,
				"took", time.Since(start).String())
		}()
		next.ServeHTTP(w, r)
	})
}

// refuse responds with a problem.
func refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	p.RequestID = requestID(r.Context())
	w.Header().Set("Content-Type", problemJSON)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller may be gone
}

// unauthorized answers a request that auth.Protect refuses.
func (a *API) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, auth.ErrCrossOrigin):
		refuse(w, r, crossOrigin.problem())
	case errors.Is(err, auth.ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, r, unauthenticated.problem())
	case errors.Is(err, auth.ErrTooMany):
		refuse(w, r, tooMany.problem())
	default:
		p := problemOf(err)
		if errors.Is(err, auth.ErrUnavailable) {
			p = unchecked.problem()
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
			refuse(w, r, forbidden.problem())
			return
		}
		a.limited(next).ServeHTTP(w, r)
	}), a.unauthorized))
}

// attributed gives the changes of a request their origin in the audit.
func attributed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.FromContext(r.Context())
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			address = r.RemoteAddr
		}
		next.ServeHTTP(w, r.WithContext(admin.WithOrigin(r.Context(),
			admin.Origin{By: p.Name, Program: "api", Address: address, Request: requestID(r.Context())})))
	})
}

// Routes that differ in what bounds them.
const (
	patternStream   = "POST " + pathQueue + "/tasks/stream"
	patternCheckout = "POST " + pathQueue + "/checkout"
	patternWait     = "GET " + pathTask + "/wait"
	patternSeries   = "GET " + pathDatabase + "/series"
	patternMany     = "POST " + pathDatabase + "/operate/{event}"
)

// seriesWait is how long a series waits until others have been read and sent. One may take 100 MB of memory.
const seriesWait = 5 * time.Second

// maxSmallBody is the largest body of requests that wait, many of which may run, and of those that need none.
const maxSmallBody = 64 << 10

// bounded limits how many requests run at once, how long they take, and how large their bodies are. The mux decides
// which route a request has, as a path may end like that of another route.
func (a *API) bounded(mux *http.ServeMux) http.Handler {
	next := routed(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		slots, timeout, maxBody := a.running, a.cfg.Timeout, a.cfg.MaxBody
		switch pattern {
		case patternCheckout, patternWait:
			slots, timeout, maxBody = a.waiting, timeout+a.cfg.MaxWait, min(maxBody, maxSmallBody)
		case patternSeries:
			slots = a.waiting
		}
		if hasNoBody(r.Method) {
			maxBody = min(maxBody, maxSmallBody)
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			refuse(w, r, busy.problem())
			return
		}
		stream := pattern == patternStream
		if p := cmp.Or(checkQuery(r, stream), checkMediaType(r, stream)); p != nil {
			refuse(w, r, p)
			return
		}
		if !stream {
			if p := a.readBody(w, r, maxBody); p != nil {
				refuse(w, r, p)
				return
			}
			if pattern == patternMany {
				if p := refuseNull(r); p != nil {
					refuse(w, r, p)
					return
				}
			}
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		if pattern == patternSeries {
			if err := take(r.Context(), a.reading, seriesWait); err != nil {
				refuse(w, r, problemOf(err))
				return
			}
			defer func() { <-a.reading }()
		}
		next.ServeHTTP(w, r)
	})
}

// hasNoBody reports whether requests of a method need no body.
func hasNoBody(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete
}

// checkQuery refuses a query with a part that cannot be read, which others would leave out: without a filter, a request
// applies to more. huma refuses unknown parameters, except for a stream, which has none.
func checkQuery(r *http.Request, stream bool) *Problem {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest.problem(Field{"query", "a part of it is not of the form name=value, percent-encoded"})
	}
	for _, values := range query {
		if len(values) > 1 {
			return badRequest.problem(Field{"query", "a parameter is repeated; put commas between several states"})
		}
	}
	if stream && len(query) > 0 {
		return badRequest.problem(Field{"query", "unknown query parameter"})
	}
	return nil
}

// checkMediaType refuses bodies of other media types. A browser sends those to another site without asking it.
func checkMediaType(r *http.Request, stream bool) *Problem {
	if hasNoBody(r.Method) {
		return nil
	}
	got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	want := "application/json"
	if stream {
		want = ndjson
	}
	if err != nil || got != want {
		return mediaType.problem()
	}
	return nil
}

// readBody reads the whole body, of at most maxBody bytes, before the deadline of observed. It then ends the deadline,
// which would end requests that wait.
func (a *API) readBody(w http.ResponseWriter, r *http.Request, maxBody int64) *Problem {
	if r.ContentLength > maxBody {
		return bodyTooLarge.problem()
	}
	control := http.NewResponseController(w)
	var body bytes.Buffer
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		return bodyTooLarge.problem()
	case errors.As(err, &slow) && slow.Timeout():
		w.Header().Set("Connection", "close")
		return bodyTimeout.problem()
	case err != nil:
		return badBody.problem()
	}
	_ = control.SetReadDeadline(time.Time{})
	if !hasNoBody(r.Method) && !isText(body.Bytes()) {
		return badJSON.problem()
	}
	r.Body = io.NopCloser(&body)
	return nil
}

// refuseNull refuses a body, which has been read, with a null anywhere. huma takes null for a field that was left out:
// without a filter a request applies to more, and without dry_run it changes tasks.
func refuseNull(r *http.Request) *Problem {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	dec := json.NewDecoder(bytes.NewReader(body))
	for err == nil {
		var t json.Token
		if t, err = dec.Token(); err == nil && t == nil {
			return badRequest.problem(Field{"body", "a value is null; leave the field out if it is to have none"})
		}
	}
	return nil // huma refuses what is not JSON
}

// routed answers requests without a route with problems, where the mux would answer with text or a redirection.
func routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path {
			refuse(w, r, noRoute.problem())
			return
		}
		handler, pattern := mux.Handler(r)
		if pattern != "" {
			requestOf(r.Context()).route = pattern
			mux.ServeHTTP(w, r)
			return
		}
		asked := probe{header: http.Header{}}
		handler.ServeHTTP(&asked, r)
		if asked.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", asked.header.Get("Allow"))
			refuse(w, r, noMethod.problem())
			return
		}
		refuse(w, r, noRoute.problem())
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
func (a *API) logFailure(ctx context.Context, p *Problem, err error) {
	if p.Status < http.StatusInternalServerError || ctx.Err() == context.Canceled || errors.Is(err, dbq.ErrClosed) ||
		p.Type == busy.problem().Type {
		return
	}
	a.cfg.Logger.Error("api: the request failed", "request", requestID(ctx), "err", err)
}
