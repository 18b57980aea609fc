package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/worker"
)

// bridgeConfig sends the tasks of a queue to one of: a queue of a database of the server, a URL as webhooks, or a
// receiver of tasks at a URL.
type bridgeConfig struct {
	Database    string         `yaml:"database"`
	Queue       string         `yaml:"queue"`
	Concurrency int            `yaml:"concurrency"`
	Lease       length         `yaml:"lease"`
	Window      length         `yaml:"window"`
	Rejected    bridge.Action  `yaml:"rejected"`
	Forward     *forwardConfig `yaml:"forward"`
	ForwardURL  *urlConfig     `yaml:"forward_url"`
	Webhook     *webhookConfig `yaml:"webhook"`
}

// forwardConfig names the queue that gets the tasks.
type forwardConfig struct {
	Database string `yaml:"database"`
	Queue    string `yaml:"queue"`
}

// urlConfig is an endpoint. Its URL may contain a token, so it can come from a file.
type urlConfig struct {
	URL       string         `yaml:"url"`
	URLFile   string         `yaml:"url_file"`
	Secrets   secretsConfig  `yaml:",inline"`
	Networks  []netip.Prefix `yaml:"allow_networks"`
	PlainHTTP bool           `yaml:"plain_http"`
	Timeout   length         `yaml:"timeout"`
}

// webhookConfig is an endpoint of webhooks.
type webhookConfig struct {
	urlConfig `yaml:",inline"`
	OnStatus  map[int]bridge.Action `yaml:"on_status"`
}

// secretsConfig names where the secrets of signatures are: in files, or in a variable with spaces between them.
type secretsConfig struct {
	Files    []string `yaml:"secret_files"`
	Variable string   `yaml:"secrets_env"`
}

// receiverConfig is an endpoint of the server that enqueues a task for each signed message.
type receiverConfig struct {
	Path         string        `yaml:"path"`
	Database     string        `yaml:"database"`
	Queue        string        `yaml:"queue"`
	Kind         string        `yaml:"kind"`
	KindFromType bool          `yaml:"kind_from_type"`
	Tasks        bool          `yaml:"tasks"`
	Window       length        `yaml:"window"`
	MaxBody      int           `yaml:"body_bytes"`
	Secrets      secretsConfig `yaml:",inline"`
}

// receiverPath matches the paths of receivers: not the server's own paths, which have other first parts.
var receiverPath = regexp.MustCompile(`^/hooks(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)

func (c secretsConfig) read(in surroundings) (out []bridge.Secret, err error) {
	texts := strings.Fields(in.getenv(c.Variable))
	for _, file := range c.Files {
		text, err := in.readSecret(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read one of secret_files: %w", err)
		}
		texts = append(texts, string(text))
	}
	if len(texts) == 0 {
		return nil, errors.New("there is no secret: set secret_files or secrets_env")
	}
	for _, text := range texts {
		s, err := bridge.ParseSecret(text)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (c urlConfig) endpoint(in surroundings) (e bridge.Endpoint, err error) {
	e = bridge.Endpoint{URL: c.URL, Networks: c.Networks, PlainHTTP: c.PlainHTTP, Timeout: time.Duration(c.Timeout)}
	if (c.URL == "") == (c.URLFile == "") {
		return e, errors.New("it needs one of url and url_file")
	}
	if c.URLFile != "" {
		text, err := in.readSecret(c.URLFile)
		if err != nil {
			return e, fmt.Errorf("cannot read url_file: %w", err)
		}
		e.URL = strings.TrimSpace(string(text))
	}
	e.Secrets, err = c.Secrets.read(in)
	return e, err
}

// queueOf returns a queue of a database of the server.
func (s *server) queueOf(database, queue string) (*dbq.Queue, error) {
	c := s.clients[database]
	switch {
	case c == nil:
		return nil, errors.New("database is not the name of a database of the server") // it may be a DSN
	case queue == "":
		return nil, errors.New("queue is missing")
	}
	return c.Queue(queue), nil
}

// bridgeWorkers returns the workers of the bridges, which have drain to finish when they stop.
func (s *server) bridgeWorkers(configs []bridgeConfig, drain time.Duration) (out []worker.Worker, err error) {
	for i, c := range configs {
		w, err := s.bridgeWorker(c)
		if err != nil {
			return nil, usagef("bridges, number %d: %s", i+1, plainly(err))
		}
		w.Logger, w.Lease = s.logger, time.Duration(c.Lease)
		w.DrainTimeout = max(drain, time.Millisecond) // 0 would be the default
		if c.Concurrency > 0 {
			w.Concurrency = c.Concurrency
		}
		out = append(out, w)
	}
	if loop := forwardingLoop(configs); loop != "" { // of databases of the server, as each bridge was checked
		return nil, usagef("bridges: they forward in a loop: %s", loop)
	}
	return out, nil
}

func (s *server) bridgeWorker(c bridgeConfig) (w worker.Worker, err error) {
	q, err := s.queueOf(c.Database, c.Queue)
	if err != nil {
		return w, err
	}
	var to bridge.Enqueuer
	switch {
	case c.Forward != nil && c.ForwardURL == nil && c.Webhook == nil:
		far, err := s.queueOf(c.Forward.Database, c.Forward.Queue)
		if err != nil {
			return w, fmt.Errorf("forward: %w", err)
		}
		to = bridge.ToQueue(far)
	case c.ForwardURL != nil && c.Forward == nil && c.Webhook == nil:
		e, err := c.ForwardURL.endpoint(s.surroundings)
		if err == nil {
			to, err = bridge.ToURL(e)
		}
		if err != nil {
			return w, err
		}
	case c.Webhook != nil && c.Forward == nil && c.ForwardURL == nil:
		e, err := c.Webhook.endpoint(s.surroundings)
		if err != nil {
			return w, err
		}
		if c.Window != 0 {
			return w, errors.New("window is for forward and forward_url")
		}
		hook, err := bridge.NewWebhook(bridge.WebhookConfig{
			Endpoint: e, Rejected: c.Rejected, OnStatus: c.Webhook.OnStatus, Logger: s.logger,
		})
		if err != nil {
			return w, err
		}
		return hook.Worker(q), nil
	default:
		return w, errors.New("it needs one of forward, forward_url and webhook")
	}
	f, err := bridge.NewForwarder(bridge.ForwarderConfig{
		To: to, Window: time.Duration(c.Window), Rejected: c.Rejected, Logger: s.logger,
	})
	if err != nil {
		return w, err
	}
	return f.Worker(q), nil
}

// addReceivers adds the endpoints that receive messages. They need no credentials: each message is signed.
func (s *server) addReceivers(configs []receiverConfig) error {
	seen := map[string]bool{}
	for i, c := range configs {
		err := s.addReceiver(c, seen)
		if err != nil {
			return usagef("receivers, number %d: %s", i+1, plainly(err))
		}
	}
	return nil
}

func (s *server) addReceiver(c receiverConfig, seen map[string]bool) error {
	if !receiverPath.MatchString(c.Path) || seen[c.Path] {
		return errors.New("path must be unique, and like /hooks/shop, with letters, digits, dots, - and _")
	}
	seen[c.Path] = true
	q, err := s.queueOf(c.Database, c.Queue)
	if err != nil {
		return err
	}
	secrets, err := c.Secrets.read(s.surroundings)
	if err != nil {
		return err
	}
	r, err := bridge.NewReceiver(bridge.ReceiverConfig{
		Queue: q, Secrets: secrets, Window: time.Duration(c.Window), Kind: c.Kind, KindFromType: c.KindFromType,
		Tasks: c.Tasks, MaxBody: c.MaxBody, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	s.mux.Handle(c.Path, r)
	return nil
}

// plainly returns the text of an error without the name of the package.
func plainly(err error) string { return strings.TrimPrefix(err.Error(), bridge.ErrConfig.Error()+": ") }

// runBridges runs the workers of the bridges until ctx ends, and returns a function that waits for their end.
func (s *server) runBridges(ctx context.Context, workers []worker.Worker, cs []bridgeConfig) (wait func()) {
	s.failed = make(chan error, len(workers))
	var all sync.WaitGroup
	for i, w := range workers {
		all.Go(func() {
			err := w.Run(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				s.failed <- err
			default: // by an operator's command
				s.logger.Warn("serve: a bridge was stopped by a command; restart the server to start it again",
					"database", cs[i].Database, "queue", cs[i].Queue)
			}
		})
	}
	return all.Wait
}
