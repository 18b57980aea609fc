package console

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/callers"
	"github.com/dbq-go/dbq/internal/disclosure"
	"github.com/google/uuid"
)

// visit is one request for a page.
type visit struct {
	console *Console
	w       http.ResponseWriter
	r       *http.Request
	user    auth.Principal
	db      *database // nil on pages of no database
	request string    // the id that the log and the audit have
}

// pageFunc answers a visit, or returns an error that becomes a page.
type pageFunc func(*visit) error

// Errors of a visit.
var (
	errForbidden = errors.New("your role does not allow this")
	errBadForm   = errors.New("the form or the query cannot be read")
	errTooMany   = errors.New("too many forms of one caller")
	errBusy      = errors.New("too many requests are running")
)

// page returns a handler that finds the database of the path and shows errors.
func (c *Console) page(next pageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{console: c, w: w, r: r, request: rand.Text()}
		v.user, _ = auth.FromContext(r.Context())
		defer func() {
			if cause := recover(); cause == http.ErrAbortHandler {
				panic(cause)
			} else if cause != nil {
				c.cfg.Logger.Error("console: a page panicked", "request", v.request, "cause", cause,
					"stack", string(debug.Stack()))
				v.showError(errors.New("a page panicked"))
			}
		}()
		if err := v.open(next); err != nil {
			v.showError(err)
		}
	})
}

// open finds the database of the path, reads the form and answers.
func (v *visit) open(next pageFunc) error {
	if err := v.limited("user " + v.user.Name); err != nil {
		return err
	}
	most := int64(maxForm)
	if name := v.r.PathValue("database"); name != "" {
		d := v.console.databases[name]
		if d == nil || !v.user.MaySome(auth.Read, name) {
			return errNoPage
		}
		v.db = d
		if v.r.Pattern == patternEnqueue && v.user.MaySome(auth.Enqueue, name) {
			most = maxTaskForm
		}
	}
	if err := v.arrive(most); err != nil {
		return err
	}
	if !v.console.running.Take(v.user.Name, 1) {
		return errBusy
	}
	defer v.console.running.Release(v.user.Name, 1)
	v.r = v.r.WithContext(admin.WithOrigin(v.ctx(), admin.Origin{
		By: v.user.Name, Reason: v.form("reason"), Program: "console", Address: callers.Address(v.r), Request: v.request,
	}))
	return next(v)
}

// arrive reads the form. One that may be large takes a place while it arrives: a user that sends many can fill only its
// share of the memory.
func (v *visit) arrive(most int64) error {
	if most > maxForm && (v.r.ContentLength < 0 || v.r.ContentLength > maxForm) {
		if !v.console.arriving.Take(v.user.Name, 1) {
			return errBusy
		}
		defer v.console.arriving.Release(v.user.Name, 1)
	}
	return readForm(v.w, v.r, most)
}

func (v *visit) ctx() context.Context { return v.r.Context() }

// may reports whether the user may apply an action to a queue of the database. An empty queue stands for all queues.
func (v *visit) may(a auth.Action, queue string) bool { return v.user.May(a, v.db.name, queue) }

// sees returns the user as it reads the database.
func (v *visit) sees() disclosure.Caller {
	return disclosure.Caller{Principal: v.user, Database: v.db.name, Redact: v.db.redact}
}

// need returns errForbidden if the user may not apply an action to a queue of the database.
func (v *visit) need(a auth.Action, queue string) error {
	if !v.may(a, queue) {
		return errForbidden
	}
	return nil
}

// limited refuses a form of a caller that sends too many.
func (v *visit) limited(caller string) error {
	if v.r.Method != http.MethodPost {
		return nil
	}
	wait := v.console.callers.Wait(caller)
	if wait == 0 {
		return nil
	}
	v.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	return errTooMany
}

// The largest forms that are read, in bytes. That of a task has its payload.
const (
	maxForm     = 32 << 10
	maxTaskForm = 17 << 20
)

// patternEnqueue is the route of the form that has a payload.
const patternEnqueue = "POST /db/{database}/enqueue"

// readForm parses the form and the query of a request. It refuses a form that it cannot read as a whole: a form that
// lost a field would select more tasks.
func readForm(w http.ResponseWriter, r *http.Request, most int64) error {
	r.Body = http.MaxBytesReader(w, r.Body, most)
	err := errBadForm
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method != http.MethodPost || r.ContentLength == 0 || kind == "application/x-www-form-urlencoded" {
		err = r.ParseForm()
	}
	if err == nil {
		return nil
	}
	r.Form, r.PostForm = url.Values{}, url.Values{} // otherwise FormValue would read the body again
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return err
	}
	return errBadForm
}

// form returns a field of the form or the query without surrounding space.
func (v *visit) form(name string) string { return strings.TrimSpace(v.r.FormValue(name)) }

// named returns a field that has a name as it is: one that begins or ends with a space is another name, and a space
// alone is not empty.
func (v *visit) named(field string) string { return v.r.FormValue(field) }

// id returns the id of a task or workflow in the path.
func (v *visit) id() (uuid.UUID, error) {
	id, err := uuid.Parse(v.r.PathValue("id"))
	if err != nil {
		return id, errNoPage
	}
	return id, nil
}

// task reads the task of the path if the user may apply an action to it. One of another queue does not exist for it.
func (v *visit) task(a auth.Action) (dbq.Task, error) {
	id, err := v.id()
	if err != nil {
		return dbq.Task{}, err
	}
	t, err := v.db.client.Get(v.ctx(), id)
	switch {
	case err != nil:
		return t, err
	case !v.may(auth.Read, t.Queue):
		return dbq.Task{}, dbq.ErrNotFound
	case !v.may(a, t.Queue):
		return dbq.Task{}, errForbidden
	}
	v.sees().Task(&t)
	return t, nil
}

// path returns the path of a page of the database, with a query of names and values; empty values are left out.
func (v *visit) path(page string, query ...string) string {
	return link(v.console.cfg.Prefix+"/db/"+v.db.name+"/"+page, query...)
}

func link(path string, query ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			q.Add(query[i], query[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// done redirects to a page, on which a message reports the change.
func (v *visit) done(to, message string) error {
	v.setFlash(message)
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}
