package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/worker"
	"github.com/spf13/cobra"
)

// Variables with what would be visible in the list of processes.
const (
	secretsVariable = "DBQ_WEBHOOK_SECRETS"
	toVariable      = "DBQ_TO_DSN"
)

// bridgeRun is a run of dbq bridge.
type bridgeRun struct {
	*app
	queue, toQueue, toFile, toPrefix, toSchema string
	url, listen                                string
	tasks, plainHTTP, untilEmpty               bool
	secretFiles, networks, onStatus            []string
	concurrency                                int
	window                                     time.Duration
}

func newBridge(a *app) *cobra.Command {
	b := &bridgeRun{app: a}
	cmd := a.command("dbq bridge", noArgs(""), func(ctx context.Context, _ []string) error {
		if err := b.check(); err != nil {
			return err
		}
		return a.use(ctx, false, func(c *dbq.Client) error { return b.run(ctx, c) })
	})
	cmd.Long = fmt.Sprintf(cmd.Long, toVariable, secretsVariable)
	a.addQueueFlag(cmd, &b.queue, "the `NAME` of the queue whose tasks are sent, or that gets the messages")
	l := cmd.Flags()
	l.SortFlags = false
	l.StringVar(&b.toQueue, "to-queue", "", "forward the tasks to the queue with this `NAME`")
	l.StringVar(&b.toFile, "to-dsn-file", "",
		"read the DSN of that queue's database from `FILE` (default $"+toVariable+")")
	l.StringVar(&b.toPrefix, "to-prefix", "", "`PREFIX` of the tables' names there (default dbq_)")
	l.StringVar(&b.toSchema, "to-schema", "", "`SCHEMA` of the tables there (default the connection's own)")
	l.StringVar(&b.url, "url", "", "POST the tasks to this `URL`")
	l.StringVar(&b.listen, "listen", "", "receive messages at this `ADDRESS`, such as 127.0.0.1:8080")
	l.BoolVar(&b.tasks, "tasks", false, "with --url and --listen: forward tasks from one dbq to another")
	l.StringArrayVar(&b.secretFiles, "secret-file", nil,
		"read a secret of signatures from `FILE`; repeatable (default $"+secretsVariable+")")
	l.StringArrayVar(&b.onStatus, "on-status", nil,
		"with --url, an `ACTION` for a status, such as 410=pause-queue; repeatable")
	l.StringArrayVar(&b.networks, "allow-network", nil,
		"with --url, allow a `NETWORK` of non-public addresses, such as 10.1.0.0/16; repeatable")
	l.BoolVar(&b.plainHTTP, "plain-http", false, "with --url, allow http, without encryption")
	l.VarP(intWithin(&b.concurrency, 4, 1, dbq.MaxCheckout), "concurrency", "c",
		"send up to `N` messages at the same time")
	durationVar(l, &b.window, "window", bridge.DefaultWindow, "recognize a repeated task or message for this `TIME`").
		within(time.Hour, dbq.MaxUniquePeriod)
	l.BoolVar(&b.untilEmpty, "until-empty", false, "stop when nothing is due or being sent")
	return cmd
}

// check refuses flags that are missing or exclude each other.
func (b *bridgeRun) check() error {
	ways := 0
	for _, way := range []string{b.toQueue, b.url, b.listen} {
		if way != "" {
			ways++
		}
	}
	to := b.toFile != "" || b.toPrefix != "" || b.toSchema != ""
	switch {
	case b.queue == "":
		return usagef("--queue is missing")
	case ways != 1:
		return usagef("give one of --to-queue, --url and --listen")
	case b.toQueue == "" && to:
		return usagef("--to-dsn-file, --to-prefix and --to-schema need --to-queue")
	case b.tasks && b.toQueue != "":
		return usagef("--tasks is for --url and --listen; --to-queue always forwards tasks")
	case b.url == "" && (b.plainHTTP || len(b.networks) > 0), (b.url == "" || b.tasks) && len(b.onStatus) > 0:
		return usagef("--on-status, --allow-network and --plain-http are for --url, and --on-status not for --tasks")
	case b.listen != "" && b.untilEmpty:
		return usagef("--until-empty is not for --listen")
	}
	return nil
}

// run runs the bridge until ctx ends, or with --until-empty until the queue is empty.
func (b *bridgeRun) run(ctx context.Context, c *dbq.Client) error {
	logger := b.newLogger(slog.LevelWarn)
	q := c.Queue(b.queue)
	if b.listen != "" {
		return b.receive(ctx, q, logger)
	}
	if b.toQueue == "" {
		w, err := b.toURL(q, logger)
		if err != nil {
			return err
		}
		return b.work(ctx, w, logger)
	}
	far := &app{surroundings: b.surroundings, dsnFile: b.toFile, prefix: b.toPrefix, schema: b.toSchema}
	if b.toFile == "" {
		if far.dsn = b.getenv(toVariable); far.dsn == "" {
			return usagef("--to-queue needs a DSN: give --to-dsn-file or set %s", toVariable)
		}
	}
	if err := far.readDSNFile(); err != nil {
		return err
	}
	return far.use(ctx, false, func(to *dbq.Client) error {
		w, err := b.forwarder(bridge.ToQueue(to.Queue(b.toQueue)), q, logger)
		if err != nil {
			return err
		}
		return b.work(ctx, w, logger)
	})
}

func (b *bridgeRun) work(ctx context.Context, w worker.Worker, logger *slog.Logger) error {
	w.Concurrency, w.UntilEmpty, w.Logger = b.concurrency, b.untilEmpty, logger
	if !b.untilEmpty {
		b.note("sending the tasks of queue %q; Ctrl-C stops", b.queue)
	}
	return w.Run(ctx)
}

// forwarder returns the worker that forwards to an Enqueuer.
func (b *bridgeRun) forwarder(to bridge.Enqueuer, q *dbq.Queue, logger *slog.Logger) (worker.Worker, error) {
	f, err := bridge.NewForwarder(bridge.ForwarderConfig{To: to, Window: b.window, Logger: logger})
	if err != nil {
		return worker.Worker{}, misused(err)
	}
	return f.Worker(q), nil
}

// toURL returns the worker that sends to --url.
func (b *bridgeRun) toURL(q *dbq.Queue, logger *slog.Logger) (worker.Worker, error) {
	secrets, err := b.secrets()
	if err != nil {
		return worker.Worker{}, err
	}
	e := bridge.Endpoint{URL: b.url, Secrets: secrets, PlainHTTP: b.plainHTTP}
	for _, text := range b.networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return worker.Worker{}, usagef("--allow-network: write a network such as 10.1.0.0/16")
		}
		e.Networks = append(e.Networks, network.Masked())
	}
	if b.tasks {
		to, err := bridge.ToURL(e)
		if err != nil {
			return worker.Worker{}, misused(err)
		}
		return b.forwarder(to, q, logger)
	}
	cfg := bridge.WebhookConfig{Endpoint: e, OnStatus: map[int]bridge.Action{}, Logger: logger}
	for _, text := range b.onStatus {
		number, action, _ := strings.Cut(text, "=")
		status, err := strconv.Atoi(number)
		if err != nil {
			return worker.Worker{}, usagef("--on-status: write a status and an action, such as 410=pause-queue")
		}
		cfg.OnStatus[status] = bridge.Action(action)
	}
	hook, err := bridge.NewWebhook(cfg)
	if err != nil {
		return worker.Worker{}, misused(err)
	}
	return hook.Worker(q), nil
}

// receive serves a Receiver until ctx ends.
func (b *bridgeRun) receive(ctx context.Context, q *dbq.Queue, logger *slog.Logger) error {
	secrets, err := b.secrets()
	if err != nil {
		return err
	}
	r, err := bridge.NewReceiver(bridge.ReceiverConfig{
		Queue: q, Secrets: secrets, Window: b.window, Tasks: b.tasks, KindFromType: !b.tasks, Logger: logger,
	})
	if err != nil {
		return misused(err)
	}
	address, _, err := listenAddress(b.listen)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return usagef("cannot listen on %s: %w", address, err)
	}
	const patience = 30 * time.Second
	s := &http.Server{
		Handler: r, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 2 * patience, IdleTimeout: 2 * patience,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	b.note("receiving messages for queue %q at http://%s; Ctrl-C stops", b.queue, listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return s.Shutdown(last)
}

// secrets reads the secrets of --secret-file, or else those of the variable.
func (b *bridgeRun) secrets() ([]bridge.Secret, error) {
	from := secretsConfig{Files: b.secretFiles}
	if len(from.Files) == 0 {
		from.Variable = secretsVariable
	}
	out, err := from.read(b.surroundings, "give --secret-file or set "+secretsVariable)
	if err != nil {
		return nil, usagef("%s", plainly(err))
	}
	return out, nil
}

// misused turns an error about the configuration into one about the command line.
func misused(err error) error {
	if errors.Is(err, bridge.ErrConfig) {
		return usagef("%s", plainly(err))
	}
	return err
}
