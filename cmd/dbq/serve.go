package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	urlpath "path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/telemetry/prom"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
)

// Limits of the server, besides the limits of the API.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

func newServe(a *app) *cobra.Command {
	s := &server{app: a, flags: serveConfig{Drain: length(30 * time.Second)}}
	cmd := a.command("dbq serve", noArgs("give databases as --dsn NAME=DSN"), func(ctx context.Context, _ []string) error {
		if s.demo {
			return s.runDemo(ctx)
		}
		cfg, err := s.config()
		if err != nil {
			return err
		}
		return s.run(ctx, cfg)
	})
	cmd.DisableFlagsInUseLine = true
	s.addFlags(cmd)
	return cmd
}

// server is a run of dbq serve.
type server struct {
	*app
	flags      serveConfig
	dsns       []string
	configFile string
	changed    func(flag string) bool
	demo       bool

	logger  *slog.Logger
	clients map[string]*dbq.Client
	metrics *prometheus.Registry
	mux     *http.ServeMux
	failed  chan error // of bridges that have ended

	stopping atomic.Bool
	ready    readiness
}

// run serves until ctx ends, and then lets running requests finish.
func (s *server) run(ctx context.Context, cfg serveConfig) error {
	address, loopback, err := listenAddress(cfg.Listen)
	if err != nil {
		return err
	}
	if err := cfg.Auth.check(cfg.Databases, loopback); err != nil {
		return err
	}
	level := slog.LevelInfo
	if cfg.Quiet {
		level = slog.LevelWarn
	}
	s.logger = s.newLogger(level, cfg.LogJSON)
	s.metrics = prometheus.NewRegistry()
	defer s.close()
	if err := s.openAll(ctx, cfg); err != nil {
		return err
	}
	handler, err := api.New(api.Config{
		Databases: s.clients, Authenticator: cfg.Auth.authenticator(s.clients), Logger: s.logger, MaxBody: cfg.Limits.Body,
		MaxMemory: cfg.Limits.Memory, MaxRequests: cfg.Limits.Requests, MaxWaiting: cfg.Limits.Waiting,
		MaxWait: time.Duration(cfg.Limits.Wait),
		Timeout: time.Duration(cfg.Limits.Timeout), BodyTimeout: time.Duration(cfg.Limits.BodyTimeout),
		Redactions: cfg.Redact, CallerRate: cfg.Limits.CallerRate, CallerBurst: cfg.Limits.CallerBurst,
	})
	if err != nil {
		return usagef("%w", err)
	}
	workers, err := s.bridgeWorkers(cfg.Bridges, time.Duration(cfg.Drain))
	if err != nil {
		return err
	}
	s.mux = http.NewServeMux()
	if err := s.addReceivers(cfg.Receivers); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return usagef("cannot listen on %s: %w", address, err)
	}
	if !loopback && cfg.TLS.Cert == "" {
		s.logger.Warn("serve: without TLS, tokens and payloads can be read on the network", "address", address)
	}
	scheme := "http"
	if cfg.TLS.Cert != "" {
		encrypted, err := listenTLS(listener, tlsConfig{Cert: s.path(cfg.TLS.Cert), Key: s.path(cfg.TLS.Key)}, s.logger)
		if err != nil {
			listener.Close()
			return err
		}
		scheme, listener = "https", encrypted
	}
	pages, err := console.New(console.Config{
		Databases: s.clients, Authenticator: cfg.Auth.authenticator(s.clients), Logger: s.logger,
		Timeout: time.Duration(cfg.Limits.Timeout), Redactions: cfg.Redact, MaxRequests: cfg.Limits.Requests,
		Proxies: cfg.proxies(), CallerRate: cfg.Limits.CallerRate, CallerBurst: cfg.Limits.CallerBurst,
	})
	if err != nil {
		return usagef("%w", err)
	}
	if s.demo {
		defer s.workDemo(ctx)()
	}
	bridges, stop := context.WithCancel(ctx)
	wait := s.runBridges(bridges, workers, cfg.Bridges)
	defer wait()
	defer stop()
	return s.serve(ctx, cfg, handler, pages, listener, scheme)
}

func (s *server) serve(
	ctx context.Context, cfg serveConfig, handler *api.API, pages *console.Console, l net.Listener, scheme string,
) error {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("GET /readyz", s.readyz)
	s.mux.HandleFunc("GET /readyz/{database}", s.readyz)
	s.mux.Handle("GET /metrics", handler.Protect(auth.Read, promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{})))
	s.mux.Handle("/v1/", handler)
	for _, path := range []string{"/{$}", "/db/", "/login", "/logout", "/prefs", "/static/"} {
		s.mux.Handle(path, pages)
	}
	// A sender of webhooks would follow a redirection to the console's login, and take the page for a success.
	for _, path := range []string{"/", "/v1", "/db", "/static"} { // the mux would add a slash to the others
		s.mux.HandleFunc(path, notFound)
	}
	bodyTimeout := cmp.Or(time.Duration(cfg.Limits.BodyTimeout), api.DefaultBodyTimeout)
	longest := cmp.Or(time.Duration(cfg.Limits.Wait), api.DefaultMaxWait) +
		cmp.Or(time.Duration(cfg.Limits.Timeout), api.DefaultTimeout) + bodyTimeout
	h := &http.Server{
		Handler: timed(bodyTimeout, plain(s.mux)), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, WriteTimeout: longest + headerTimeout,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
	var duties sync.WaitGroup // they log their errors, and end with their contexts
	defer duties.Wait()
	running, end := context.WithCancel(ctx)
	defer end()
	for _, c := range s.clients {
		duties.Go(func() { _ = schedule.New(c).Run(running) })
	}
	duties.Go(func() { pages.Prepare(running) })
	// Maintenance continues while running requests finish, and then reports their work.
	maintaining, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if !cfg.NoMaintenance {
		duties.Go(func() { _ = handler.Run(maintaining) })
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	s.note("serving %s on %s://%s; Ctrl-C stops", plural(len(s.clients), "database"), scheme, l.Addr())
	select {
	case err := <-ended:
		return failedf("the server ended: %w", err)
	case err := <-s.failed:
		h.Close()
		return failedf("a bridge ended: %w", err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	handler.Drain()
	drain, cancel := context.WithTimeout(context.Background(), time.Duration(cfg.Drain))
	defer cancel()
	if err := h.Shutdown(drain); err != nil {
		h.Close()
		return failedf("stopped after %s although requests were running; their outcomes are in the database",
			duration.Format(time.Duration(cfg.Drain)))
	}
	return nil
}

// timed limits how long the body of a request may take, even if no handler reads it, as for a redirection. A handler
// that runs for longer sets another deadline.
func timed(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
		next.ServeHTTP(w, r)
	})
}

// openAll opens the databases.
func (s *server) openAll(ctx context.Context, cfg serveConfig) error {
	s.clients = map[string]*dbq.Client{}
	for name, d := range cfg.Databases {
		m, err := prom.New(prometheus.WrapRegistererWith(prometheus.Labels{"database": name}, s.metrics))
		if err != nil {
			return err
		}
		part := *s.app
		part.dsn, part.prefix, part.schema, part.strategy, part.logger = d.DSN, d.Prefix, d.Schema, d.Strategy, s.logger
		part.dsnFile = d.DSNFile
		c, err := part.open(ctx, d.create, dbq.WithObserver(m.Call))
		if err != nil {
			return fmt.Errorf("database %q: %w", name, scrubbed(err, d.DSN))
		}
		s.clients[name] = c
		if err := m.Watch(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) close() {
	s.ready.checking.Wait()
	for _, c := range s.clients {
		c.Close()
	}
}

// notFound answers for a path that does not exist with a problem, as the API does.
func notFound(w http.ResponseWriter, _ *http.Request) {
	wire.NoRoute.Problem().Respond(w)
}

// plain answers paths that are not in their plain form, such as //v1 or /a/../v1, which a mux would redirect. Under
// TLS, it lets browsers use no other connection.
func plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if clean := urlpath.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listenAddress returns an address to listen on, and whether only this machine can reach it.
func listenAddress(listen string) (address string, loopback bool, err error) {
	resolved, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return "", false, usagef("--listen: write HOST:PORT, such as %s", defaultListen)
	}
	return resolved.String(), resolved.IP.IsLoopback(), nil
}

var errNoAuthentication = errors.New("without authentication, dbq serves only this machine: listen on 127.0.0.1, " +
	"or accept callers with tokens (--tokens NAME)")

const (
	readyTimeout = 2 * time.Second // of one database
	readyFor     = time.Second     // how long an answer of a database is reused
)

// readiness records whether the databases answer. It is safe for concurrent use.
type readiness struct {
	mu        sync.Mutex
	answered  sync.Cond // with mu
	databases map[string]*answer
	checking  sync.WaitGroup
}

// answer is the result of the last query of a database.
type answer struct {
	checking bool
	ready    bool
	at       time.Time
}

// readyz answers whether the database of the path can be reached or, without one, any of them: the clients of the
// others need not wait for one that is away. The log says which one it is.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	if !s.answers(r.PathValue("database")) || s.stopping.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// answers reports whether a database, or any of them without a name, answers or has answered just now. It returns with
// the first answer. A database is queried by one goroutine at a time, however many requests wait.
func (s *server) answers(only string) bool {
	oldest, r := time.Now().Add(-readyFor), &s.ready
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.databases == nil {
		r.databases, r.answered.L = map[string]*answer{}, &r.mu
	}
	for {
		waits := false
		for name, c := range s.clients {
			if only != "" && only != name {
				continue
			}
			a := r.databases[name]
			if a == nil {
				a = &answer{}
				r.databases[name] = a
			}
			if !a.checking && !a.at.After(oldest) {
				a.checking = true
				r.checking.Go(func() { s.check(name, c, a) })
			}
			if a.ready && !a.checking {
				return true
			}
			waits = waits || a.checking
		}
		if !waits {
			return false
		}
		r.answered.Wait()
	}
}

// check queries a database, and records whether it answered.
func (s *server) check(name string, c *dbq.Client, a *answer) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	_, err := c.Now(ctx)
	if err != nil {
		s.logger.Error("serve: the database does not answer", "database", name, "err", err)
	}
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	*a = answer{ready: err == nil, at: time.Now()}
	s.ready.answered.Broadcast()
}

// certificateCheck is how often the files of a certificate are checked for changes, at most.
const certificateCheck = time.Second

// certificate is the certificate of a server. It is read again when one of its files has changed, so that a renewed
// certificate needs no restart. It is safe for concurrent use.
type certificate struct {
	files  tlsConfig
	logger *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	read    stamp // of the files that pair was read from
	failed  stamp // of the files that could not be used, which is logged once
	checked time.Time
}

// stamp identifies the versions of the files of a certificate.
type stamp struct{ cert, key version }

type version struct {
	at   time.Time
	size int64
}

// listenTLS returns a listener that serves HTTPS with a certificate, or an error if the certificate cannot be used.
func listenTLS(l net.Listener, files tlsConfig, logger *slog.Logger) (net.Listener, error) {
	c := &certificate{files: files, logger: logger}
	if err := c.load(c.stamp()); err != nil {
		return nil, usagef("cannot use the certificate or its key: %w", err)
	}
	return tls.NewListener(l, &tls.Config{
		GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

// get returns the certificate for a new connection. If changed files cannot be used, such as while only one of them
// has been replaced, it returns the certificate that it had.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < certificateCheck {
		return c.pair, nil
	}
	c.checked = time.Now()
	now := c.stamp()
	if now == c.read {
		return c.pair, nil
	}
	if err := c.load(now); err == nil {
		c.logger.Info("serve: the certificate was renewed", "until", c.pair.Leaf.NotAfter)
	} else if now != c.failed {
		c.failed = now
		c.logger.Error("serve: the changed certificate cannot be used; the previous one is kept", "err", err)
	}
	return c.pair, nil
}

// load reads the files, whose stamp was taken before.
func (c *certificate) load(before stamp) error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err == nil {
		c.pair, c.read = &pair, before
	}
	return unnamed(err)
}

func (c *certificate) stamp() stamp { return stamp{versionOf(c.files.Cert), versionOf(c.files.Key)} }

// versionOf returns the version of a file, which is zero for one that cannot be read.
func versionOf(path string) version {
	info, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	return version{info.ModTime(), info.Size()}
}
