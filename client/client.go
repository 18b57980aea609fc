// Package client enqueues tasks and works on them through the HTTP API of `dbq serve`, for programs without access to
// the database. Its queues are for the workers of package worker:
//
//	c, err := client.New(client.Config{URL: "https://dbq.example", TokenFile: "/run/secrets/dbq"})
//	mux := worker.NewMux()
//	worker.Handle(mux, SendMail, func(ctx context.Context, t dbq.Task, m Mail) error { ... })
//	w := worker.Worker{Queue: c.Queue("mail"), Handler: mux}
//	err = w.Run(ctx) // until ctx ends; then it drains
//
// Calls return the errors of package dbq, such as dbq.ErrDuplicate. docs/clients.md lists the calls that need access to
// the database.
package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/worker"
)

// ErrConfig is returned for a Config with an invalid field. It matches dbq.ErrInvalid too.
var ErrConfig error = &errs.InvalidError{Text: "client: invalid configuration"}

// Config configures a Client. For every field, zero means the documented default.
type Config struct {
	// URL is the address of the server, with the prefix of the API if it has one. It must not contain a user, a query
	// or a fragment. The default is http://127.0.0.1:8321.
	URL string
	// Database is the name of the database on the server. The default is "default".
	Database string
	// Token is the bearer token that each request carries. It is sent to URL only, as redirects are not followed. Use
	// https to reach another machine.
	Token string
	// TokenFile is a file with the token, which is read for each request, so that it can be replaced. Set Token or
	// TokenFile, not both.
	TokenFile string
	// HTTPClient sends the requests, for example through a Transport with certificate authorities of your own. The
	// client uses a copy that follows no redirects. It must not limit requests to less than a Worker's PollMax. The
	// default has a Transport of its own.
	HTTPClient *http.Client
	// RetryFor is how long a call is repeated, with pauses that grow from 0.1 to 10 seconds, while the server does not
	// answer or cannot serve it. A call also ends with its context. The default is 30 seconds; a negative value repeats
	// nothing. A worker repeats its own requests for as long as it runs.
	RetryFor time.Duration
	// MaxResponse is the largest response that is read, in bytes. It must exceed the largest task as JSON. If the tasks
	// of a checkout exceed it, each has lost an attempt, and a worker then leases its tasks one by one. The default is
	// 64 MiB.
	MaxResponse int64
	// Logger gets a line for each call that is repeated. No line contains a token or a payload. The default is
	// slog.Default.
	Logger *slog.Logger
}

const (
	defaultURL         = "http://127.0.0.1:8321"
	defaultRetryFor    = 30 * time.Second
	defaultMaxResponse = 64 << 20
	// callTimeout limits one request, in addition to the time that the server may wait for a task.
	callTimeout = 30 * time.Second
	// maxToken limits a file with a token, in bytes.
	maxToken = 64 << 10
)

// Client calls the API for one database. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string // the URL of the database, without a slash at its end
	host string // for errors
	http *http.Client
}

// New returns a Client, or ErrConfig. It sends nothing.
func New(cfg Config) (*Client, error) {
	refuse := func(format string, args ...any) (*Client, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	cfg.URL, cfg.Database = cmp.Or(cfg.URL, defaultURL), cmp.Or(cfg.Database, "default")
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return refuse("URL is not of the form https://host/prefix") // the error would show it
	case u.User != nil:
		return refuse("the URL at %s has a user; set Token or TokenFile instead", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return refuse("the URL at %s has a query or a fragment; leave it out", u.Host)
	case !bounds.DatabaseName(cfg.Database):
		return refuse("Database %q is not a name of 1 to 32 lower-case letters, digits, - and _", cfg.Database)
	case cfg.Token != "" && cfg.TokenFile != "":
		return refuse("set Token or TokenFile, not both")
	case cfg.MaxResponse < 0:
		return refuse("MaxResponse is %d; it must be at least 0", cfg.MaxResponse)
	}
	if _, err := checkToken(cfg.Token); err != nil {
		return refuse("%w", err)
	}
	cfg.RetryFor = cmp.Or(cfg.RetryFor, defaultRetryFor)
	cfg.MaxResponse = cmp.Or(cfg.MaxResponse, defaultMaxResponse)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	sender := http.Client{Transport: newTransport()}
	if cfg.HTTPClient != nil {
		sender = *cfg.HTTPClient
	}
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		cfg: cfg, base: strings.TrimRight(u.String(), "/") + "/v1/db/" + cfg.Database, host: u.Host, http: &sender,
	}, nil
}

// newTransport returns http.DefaultTransport with as many idle connections as a worker's requests use.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = 16, 64<<10
	return t
}

// Queue returns a queue by its name. It sends nothing; calls of a queue with an invalid name return
// dbq.ErrQueueName.
func (c *Client) Queue(name string) *Queue { return &Queue{client: c, name: name} }

// token returns the token for a request.
func (c *Client) token() (string, error) {
	if c.cfg.TokenFile == "" {
		return checkToken(c.cfg.Token)
	}
	file, err := os.Open(c.cfg.TokenFile)
	if err != nil {
		return "", fmt.Errorf("client: the file with the token cannot be read: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken))
	if err != nil {
		return "", fmt.Errorf("client: the file with the token cannot be read: %w", err)
	}
	token, err := checkToken(string(bytes.TrimSpace(text)))
	if err == nil && token == "" {
		err = fmt.Errorf("client: the file %s has no token", c.cfg.TokenFile)
	}
	return token, err
}

// checkToken refuses a token that a header cannot contain, without showing it.
func checkToken(token string) (string, error) {
	for _, r := range []byte(token) {
		if r <= ' ' || r > '~' {
			return "", fmt.Errorf("%w: the token has a space or a character that is not ASCII", ErrConfig)
		}
	}
	return token, nil
}

// FromContext returns the client of the worker that called the handler, to enqueue tasks with. It returns nil if ctx is
// not the context of a handler, or derived from it, or if the worker has access to the database; see worker.Client.
func FromContext(ctx context.Context) *Client {
	if q, ok := worker.QueueOf(ctx).(*Queue); ok {
		return q.client
	}
	return nil
}

// Queue is a queue of a Client: the Queue of a worker.Worker. It is safe for concurrent use.
type Queue struct {
	client *Client
	name   string
	single atomic.Bool // tasks are leased one by one, because a response was too large
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Client returns the client.
func (q *Queue) Client() *Client { return q.client }

// path returns the path of a request about the queue, below the database.
func (q *Queue) path(rest string) (string, error) {
	if err := checkQueueName(q.name); err != nil {
		return "", &dbq.Error{Op: rest, Queue: q.name, Err: err}
	}
	return "/queues/" + url.PathEscape(q.name) + "/" + rest, nil
}
