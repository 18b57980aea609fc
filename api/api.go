// Package api serves dbq databases over HTTP with JSON.
//
//	handler, err := api.New(api.Config{
//		Databases: map[string]*dbq.Client{"shop": client}, Authenticator: auth.NewTokens(client),
//	})
//	http.Handle("/dbq/", http.StripPrefix("/dbq", handler))
//
// docs/http.md describes the paths, and docs/openapi.json every field. `dbq serve` is a server with this handler.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/callers"
	"github.com/dbq-go/dbq/internal/disclosure"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/redaction"
	"github.com/dbq-go/dbq/schedule"
)

// Config configures an API. The zero value of each number and time selects its default.
type Config struct {
	// Databases are the clients by the names that paths use: 1 to 32 lower-case letters, digits, - and _, the first one
	// a letter. The API does not close them.
	Databases map[string]*dbq.Client
	// Authenticator finds the caller of each request. It is required.
	Authenticator auth.Authenticator
	// Logger gets a line for each request. The default is slog.Default.
	Logger *slog.Logger
	// MaxBody limits a body, in bytes. The default is 16 MiB.
	MaxBody int64
	// BodyTimeout limits how long a body may take to arrive. The default is 30 seconds.
	BodyTimeout time.Duration
	// Timeout limits how long a request may take after its body has arrived, not counting the time that it waits.
	// The default is 30 seconds.
	Timeout time.Duration
	// MaxRequests limits the requests of each database that run at once, except the ones that MaxWaiting limits. Others
	// get 503 with Retry-After. Each caller may use as many as are free: one that takes all that it can gets half of
	// them, the next one half of the rest, and so on. It also limits the requests that are authenticated at once.
	// There, a caller is a header Authorization, and all whose header was not accepted before are one. The default is
	// 100.
	MaxRequests int
	// MaxMemory limits the total memory of concurrent requests, in bytes. It counts large request bodies and their
	// decoded form, tasks read or checked out, and responses not yet sent. It is shared as MaxRequests is, but by all
	// databases. A request that takes up to 64 KiB does not count, and one that runs alone is never refused. The
	// default is 512 MiB.
	MaxMemory int64
	// CallerRate limits the requests of each caller (auth.Principal.Name) per second, and CallerBurst how many may come
	// at once; its default is the requests of one second. Others get 429 with Retry-After. The default is no limit.
	CallerRate  float64
	CallerBurst int
	// MaxWaiting limits the checkouts, waits for the end of a task, and series that run or wait at once in each
	// database, and is shared as MaxRequests is. The default is 1000.
	MaxWaiting int
	// MaxWait limits how long a request waits for tasks, or for the end of a task. A longer wait_seconds is shortened
	// to it. The default is 60 seconds.
	MaxWait time.Duration
	// Redactions hide parts of payloads, headers, results and progress from callers that read tasks.
	Redactions []redaction.Rule
}

// The defaults of Config.
const (
	DefaultMaxBody     = 16 << 20
	DefaultBodyTimeout = 30 * time.Second
	DefaultTimeout     = 30 * time.Second
	DefaultMaxRequests = 100
	DefaultMaxMemory   = 512 << 20
	DefaultMaxWaiting  = 1000
	DefaultMaxWait     = 60 * time.Second
)

// API is the HTTP API as a handler. It is safe for concurrent use.
type API struct {
	cfg       Config
	databases map[string]*database
	handler   http.Handler
	routes    map[string]*route // of the operations, by pattern
	openAPI   []byte
	callers   *callers.Limiter
	budget    *callers.Places // bytes
	draining  context.Context
	drain     context.CancelFunc
	// maintained reports that Run was called.
	maintained atomic.Bool
}

// database is one database of an API.
type database struct {
	name   string
	client *dbq.Client
	admin  *admin.Admin
	// schedules reads and changes the schedules. It does not fire them.
	schedules *schedule.Schedules
	leases    leaseKey
	redact    redaction.Redactor
	// maintenance counts the work of the API, and does the duties of Run.
	maintenance *maintenance.Server
	// workers lists the callers that check out.
	workers *workers

	running *callers.Places // of requests
	waiting *callers.Places // of requests that may wait
	reading chan struct{}   // one element while a series is read

	listen sync.Once
	// listener keeps the notifications of other processes coming between requests that wait.
	listener *dbq.Consumer
}

// New returns an API. It sends nothing to the databases. It returns dbq.ErrOption if the configuration is invalid.
func New(cfg Config) (*API, error) {
	refuse := func(format string, args ...any) (*API, error) {
		return nil, fmt.Errorf("api: %w: "+format, append([]any{dbq.ErrOption}, args...)...)
	}
	switch {
	case cfg.Authenticator == nil:
		return refuse("Authenticator is required")
	case len(cfg.Databases) == 0:
		return refuse("Databases is empty; add at least one")
	case min(cfg.MaxBody, cfg.MaxMemory, int64(cfg.MaxRequests), int64(cfg.MaxWaiting)) < 0,
		min(cfg.BodyTimeout, cfg.Timeout, cfg.MaxWait) < 0:
		return refuse("MaxBody, MaxMemory, MaxRequests, MaxWaiting, BodyTimeout, Timeout and MaxWait must not be negative")
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.BodyTimeout = cmp.Or(cfg.BodyTimeout, DefaultBodyTimeout)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, DefaultMaxRequests)
	cfg.MaxMemory = cmp.Or(cfg.MaxMemory, DefaultMaxMemory)
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, DefaultMaxWaiting)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, DefaultMaxWait)
	cfg.Authenticator = authenticator{
		cfg.Authenticator, callers.NewPlaces(int64(cfg.MaxRequests)), &accepted{hashes: map[string]bool{}},
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	limiter, err := callers.New(cfg.CallerRate, cfg.CallerBurst)
	if err != nil {
		return refuse("%w", err)
	}
	a := &API{
		cfg: cfg, databases: map[string]*database{}, callers: limiter, budget: callers.NewPlaces(cfg.MaxMemory),
	}
	for name, client := range cfg.Databases {
		if !bounds.DatabaseName(name) || client == nil {
			return refuse("a database needs a client, and a name of 1 to 32 lower-case letters, digits, - and _")
		}
		a.databases[name] = &database{
			name: name, client: client, admin: admin.New(client), schedules: schedule.New(client),
			maintenance: a.newMaintenance(name, client),
			workers:     newWorkers(access.Of(client).Control, cfg.Logger.With("database", name)),
			running:     callers.NewPlaces(int64(cfg.MaxRequests)),
			waiting:     callers.NewPlaces(int64(cfg.MaxWaiting)), reading: make(chan struct{}, 1),
		}
	}
	redactors, err := redaction.New(slices.Collect(maps.Keys(a.databases)), cfg.Redactions)
	if err != nil {
		return refuse("%w", err)
	}
	for name, d := range a.databases {
		d.redact = redactors[name]
	}
	a.draining, a.drain = context.WithCancel(context.Background())
	a.handler, a.openAPI, err = a.register()
	return a, err
}

// ServeHTTP answers a request. To serve the API below a prefix, wrap it in http.StripPrefix.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// OpenAPI returns the description of the API, as OpenAPI 3.1 in JSON.
func (a *API) OpenAPI() []byte { return a.openAPI }

// Drain makes requests that wait, and later ones, return immediately without tasks. Call it before
// http.Server.Shutdown, which waits for running requests.
func (a *API) Drain() {
	a.drain()
	for _, d := range a.databases {
		d.listen.Do(func() {})
		if d.listener != nil {
			d.listener.Close()
		}
	}
}

// seenBy returns a caller as it reads the database.
func (d *database) seenBy(p auth.Principal) disclosure.Caller {
	return disclosure.Caller{Principal: p, Database: d.name, Redact: d.redact}
}

// waitAtMost returns a context that ends when the caller has waited long enough, when the caller is gone, or when the
// server stops.
func (a *API) waitAtMost(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, min(max(wait, 0), a.cfg.MaxWait))
	stop := context.AfterFunc(a.draining, cancel)
	return ctx, func() { stop(); cancel() }
}

// open returns a database if the caller may apply an action to a queue of it, and the caller. An empty queue stands for
// all queues.
func (a *API) open(ctx context.Context, action auth.Action, name, queue string) (*database, auth.Principal, error) {
	p, _ := auth.FromContext(ctx)
	return a.opened(name, p, p.May(action, name, queue))
}

// anyQueue is open for a caller that may apply the action to some queue.
func (a *API) anyQueue(ctx context.Context, action auth.Action, name string) (*database, auth.Principal, error) {
	p, _ := auth.FromContext(ctx)
	return a.opened(name, p, p.MaySome(action, name))
}

// filtered is open for a request to read one queue or, without one, those that the caller may read.
func (a *API) filtered(ctx context.Context, name, queue string) (*database, auth.Principal, error) {
	if queue == "" {
		return a.anyQueue(ctx, auth.Read, name)
	}
	return a.open(ctx, auth.Read, name, queue)
}

func (a *API) opened(name string, p auth.Principal, may bool) (*database, auth.Principal, error) {
	d := a.databases[name]
	switch {
	case !may:
		return nil, p, wire.Forbidden.Problem()
	case d == nil:
		return nil, p, wire.NoDatabase.Problem()
	}
	return d, p, nil
}

// listed returns the elements of a list whose queue the caller may read.
func listed[T any](
	ctx context.Context, a *API, in *oneDatabase, list func(*database) ([]T, error), queueOf func(T) string,
) ([]T, error) {
	d, p, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	all, err := list(d)
	return append([]T{}, slices.DeleteFunc(all, func(v T) bool { return !d.seenBy(p).Reads(queueOf(v)) })...), err
}

// isContext reports whether an error is only the end of a context.
func isContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
