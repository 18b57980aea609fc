// Package console is the web console: pages on which operators see and change the tasks of one or several databases.
//
//	handler, err := console.New(console.Config{
//		Databases: map[string]*dbq.Client{"shop": client}, Authenticator: auth.NewTokens(client), Prefix: "/dbq",
//	})
//	http.Handle("/dbq/", handler)
//
// `dbq serve` shows it at /. docs/console.md describes the pages. They are plain HTML forms and links; scripts only
// refresh them, draw plots, copy texts and add keys.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/callers"
	"github.com/dbq-go/dbq/redaction"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// Config configures a Console.
type Config struct {
	// Databases are the clients by the names that paths use: 1 to 32 lower-case letters, digits, - and _, the first one
	// a letter. The console does not close them.
	Databases map[string]*dbq.Client
	// Authenticator finds the user of each request. It is required. If it accepts bearer tokens, users can sign in with
	// one: the console keeps it in a cookie that no script can read. Pages to read accept such a session for up to 10
	// seconds without asking again; forms always ask. The request for a session has the header Authorization and no
	// other.
	Authenticator auth.Authenticator
	// Prefix is the path below which the console is served, such as "/dbq". The default is the root.
	Prefix string
	// Logger gets the errors that a page cannot explain. The default is slog.Default.
	Logger *slog.Logger
	// Redactions hide parts of payloads, headers, results and progress.
	Redactions []redaction.Rule
	// Timeout limits the time of each request, including its calls to a database. The default is 30 seconds.
	Timeout time.Duration
	// MaxRequests limits the requests that run at once. Others get a page with the status 503. Each user may use as
	// many as are free: one that takes all that it can gets half of them, the next one half of the rest, and so on. The
	// same applies to the large forms that arrive, and, for each address, to the credentials that are checked. The
	// default is 100.
	MaxRequests int
	// CallerRate limits the forms that each user may send per second, and the attempts to sign in from each address.
	// CallerBurst is how many may come at once; its default is the requests of one second. The default is no limit.
	CallerRate  float64
	CallerBurst int
	// Proxies are the addresses of proxies that end TLS, such as 10.1.2.3/32. If a request comes from one of them and
	// its X-Forwarded-Proto is https, browsers get cookies that they send by HTTPS only.
	Proxies []netip.Prefix
}

// The defaults of Config.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxRequests = 100
)

// Console is the web console as a handler. It is safe for concurrent use.
type Console struct {
	cfg       Config
	databases map[string]*database
	names     []string
	pages     map[string]*template.Template
	handler   http.Handler
	running   *callers.Places // of users
	arriving  *callers.Places // of large forms that have not arrived, of users
	checking  *callers.Places // of requests whose credentials are checked, by address
	callers   *callers.Limiter
	sessions  sharedBy[sessionKey, auth.Principal]
}

// database is one database of a console.
type database struct {
	name      string
	client    *dbq.Client
	admin     *admin.Admin
	schedules *schedule.Schedules
	redact    redaction.Redactor
	counted   shared[counted]
	listed    shared[listed]
	hours     shared[map[string]hour] // of all queues
	kept      shared[admin.Kept]      // sizes, which change slowly
	failing   shared[map[string]admin.Failing]
	series    sharedBy[seriesKey, series]
	workflows sharedBy[uuid.UUID, workflow.Info] // without results
	poisoned  sharedBy[string, dbq.Task]         // the last one of a queue
	verdicts  sharedBy[verdictKey, admin.Verdict]
}

// New returns a console. It sends nothing to the databases. It returns dbq.ErrOption if the configuration is invalid.
func New(cfg Config) (*Console, error) {
	refuse := func(text string) (*Console, error) { return nil, fmt.Errorf("console: %w: %s", dbq.ErrOption, text) }
	switch {
	case cfg.Authenticator == nil:
		return refuse("Authenticator is required")
	case len(cfg.Databases) == 0:
		return refuse("Databases is empty; add at least one")
	case cfg.Timeout < 0 || cfg.MaxRequests < 0:
		return refuse("Timeout and MaxRequests must not be negative")
	case cfg.Prefix != "" && (!strings.HasPrefix(cfg.Prefix, "/") || strings.HasSuffix(cfg.Prefix, "/")):
		return refuse(`Prefix must begin with a slash and not end with one, as in "/dbq"`)
	}
	cfg.Timeout, cfg.MaxRequests = cmp.Or(cfg.Timeout, DefaultTimeout), cmp.Or(cfg.MaxRequests, DefaultMaxRequests)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &Console{
		cfg: cfg, databases: map[string]*database{}, pages: pages(cfg.Prefix),
		running: callers.NewPlaces(int64(cfg.MaxRequests)), arriving: callers.NewPlaces(int64(cfg.MaxRequests)),
		checking: callers.NewPlaces(int64(cfg.MaxRequests)),
		sessions: sharedBy[sessionKey, auth.Principal]{keep: sessionFor, most: sessionFor},
	}
	var err error
	if c.callers, err = callers.New(cfg.CallerRate, cfg.CallerBurst); err != nil {
		return refuse(err.Error())
	}
	for name, client := range cfg.Databases {
		if client == nil || !bounds.DatabaseName(name) {
			return refuse("a database needs a client, and a name of 1 to 32 lower-case letters, digits, - and _")
		}
		c.databases[name] = &database{
			name: name, client: client, admin: admin.New(client), schedules: schedule.New(client),
			counted:   shared[counted]{keepFor: keepCounted, patience: countPatience, log: cfg.Logger},
			hours:     shared[map[string]hour]{keep: hoursFor},
			kept:      shared[admin.Kept]{keep: hoursFor},
			failing:   shared[map[string]admin.Failing]{keep: failingFor},
			series:    sharedBy[seriesKey, series]{keep: seriesFor},
			workflows: sharedBy[uuid.UUID, workflow.Info]{keep: workflowFor},
			poisoned:  sharedBy[string, dbq.Task]{keep: poisonedFor},
			verdicts:  sharedBy[verdictKey, admin.Verdict]{keep: verdictFor},
		}
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	redactors, err := redaction.New(c.names, cfg.Redactions)
	if err != nil {
		return refuse(err.Error())
	}
	for name, d := range c.databases {
		d.redact = redactors[name]
	}
	c.handler = c.routes()
	return c, nil
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// routes returns the handler of all paths.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, page := range map[string]pageFunc{
		"GET /{$}":                                 c.databasesPage,
		"GET /db/{database}/{$}":                   c.overviewPage,
		"GET /db/{database}/queue":                 c.queuePage,
		"GET /db/{database}/keys":                  c.keysPage,
		"POST /db/{database}/queue/pause":          c.pauseQueue,
		"POST /db/{database}/queue/resume":         c.resumeQueue,
		"POST /db/{database}/queue/limits":         c.limitQueue,
		"POST /db/{database}/queue/limits/reset":   c.resetLimits,
		"POST /db/{database}/queue/settings":       c.configureQueue,
		"GET /db/{database}/tasks":                 c.tasksPage,
		"GET /db/{database}/poison":                c.poisonPage,
		"GET /db/{database}/task/{id}":             c.taskPage,
		"GET /db/{database}/task/{id}/{event}":     c.confirmPage,
		"GET /db/{database}/task/{id}/file/{part}": c.taskFile,
		"POST /db/{database}/task/{id}/{event}":    c.operate,
		"GET /db/{database}/bulk":                  c.bulkPage,
		"POST /db/{database}/bulk":                 c.bulk,
		"GET /db/{database}/enqueue":               c.enqueuePage,
		patternEnqueue:                             c.enqueue,
		"GET /db/{database}/workers":               c.workersPage,
		"POST /db/{database}/workers":              c.commandWorker,
		"GET /db/{database}/workers/stop":          c.confirmStop,
		"GET /db/{database}/schedules":             c.schedulesPage,
		"GET /db/{database}/schedule":              c.schedulePage,
		"GET /db/{database}/schedule/edit":         c.scheduleFormPage,
		"POST /db/{database}/schedule/save":        c.saveSchedule,
		"POST /db/{database}/schedule/{verb}":      c.changeSchedule,
		"GET /db/{database}/workflows":             c.workflowsPage,
		"GET /db/{database}/workflow/{id}":         c.workflowPage,
		"GET /db/{database}/workflow/{id}/{how}":   c.confirmWorkflow,
		"POST /db/{database}/workflow/{id}/{how}":  c.changeWorkflow,
		"GET /db/{database}/jump":                  c.jumpPage,
		"GET /db/{database}/server":                c.serverPage,
		"GET /db/{database}/audit":                 c.auditPage,
	} {
		mux.Handle(pattern, c.page(page))
	}
	mux.Handle("/", c.page(func(*visit) error { return errNoPage }))
	protected := auth.Protect(c.signedIn(), mux, c.refused)
	outer := http.NewServeMux()
	outer.Handle("GET /static/", staticFiles())
	outer.HandleFunc("GET /login", c.loginPage)
	outer.HandleFunc("POST /login", c.login)
	outer.HandleFunc("POST /logout", c.logout)
	outer.HandleFunc("POST /prefs", c.savePreferences)
	outer.Handle("/", protected)
	return c.secured(http.StripPrefix(c.cfg.Prefix, outer))
}

// secured sets the headers of all responses, and limits the time of each request.
func (c *Console) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		ctx, cancel := context.WithTimeout(r.Context(), c.cfg.Timeout)
		defer cancel()
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.cfg.Timeout)) // not every server has it
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// errNoPage is the error for a path without a page.
var errNoPage = errors.New("there is no such page")
