package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"golang.org/x/sync/errgroup"
)

const (
	httpEnqueue1   figure = "enqueue one by one"
	httpDrain1     figure = "drain one by one"
	httpEnqueue100 figure = "enqueue in batches of 100"
	httpDrain100   figure = "drain in batches of 100"

	httpShare = 10 // one by one, 1/httpShare of the tasks
)

// httpTasks is dbq behind its HTTP API on loopback, in this process.
type httpTasks struct {
	dbqTasks
	server *http.Server
	url    string
	http   *http.Client
}

func (h *httpTasks) Prepare(ctx context.Context) error {
	if err := h.Close(ctx); err != nil {
		return err
	}
	if err := h.dbqTasks.Prepare(ctx); err != nil {
		return err
	}
	handler, err := api.New(api.Config{
		Databases: map[string]*dbq.Client{"bench": h.c}, Authenticator: auth.Loopback{},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.url = "http://" + l.Addr().String() + "/v1/db/bench/queues/bench/"
	h.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loopGoroutines}}
	h.server = &http.Server{Handler: handler}
	go func() { _ = h.server.Serve(l) }() // Close ends it
	return nil
}

func (h *httpTasks) Close(ctx context.Context) error {
	if h.server != nil {
		h.http.CloseIdleConnections()
		if err := h.server.Close(); err != nil {
			return err
		}
		h.server = nil
	}
	return h.dbqTasks.Close(ctx)
}

func (h *httpTasks) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := h.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return json.Unmarshal(text, out)
}

type httpTask struct {
	Payload json.RawMessage `json:"payload"`
}

func (h *httpTasks) Enqueue(ctx context.Context, from, to, batch int) error {
	return ranges(from, to, batch, func(from, to int) error {
		var out struct{}
		if to-from == 1 {
			return h.post(ctx, "tasks", httpTask{newPayload(from).encode()}, &out)
		}
		tasks := make([]httpTask, to-from)
		for i := range tasks {
			tasks[i].Payload = newPayload(from + i).encode()
		}
		return h.post(ctx, "tasks/batch", map[string]any{"tasks": tasks}, &out)
	})
}

func (h *httpTasks) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	return drainAll(ctx, h, n, done)
}

func (h *httpTasks) Work(ctx context.Context, stop <-chan struct{}, handled func(int)) (time.Time, error) {
	return loops(ctx, loopGoroutines, stop, func(ctx context.Context, _ int) (bool, error) {
		return h.takeAndSettle(ctx, handled)
	})
}

// takeAndSettle handles the tasks of one checkout.
func (h *httpTasks) takeAndSettle(ctx context.Context, handled func(int)) (found bool, err error) {
	var taken struct {
		Tasks []struct{ Lease, Payload string }
	}
	err = h.post(ctx, "checkout", map[string]any{"max": h.batch, "lease_seconds": lease.Seconds()}, &taken)
	if err != nil || len(taken.Tasks) == 0 {
		return false, err
	}
	type settlement struct {
		Lease   string `json:"lease"`
		Outcome string `json:"outcome"`
	}
	ends := make([]settlement, len(taken.Tasks))
	for i, t := range taken.Tasks {
		number, err := numberOf([]byte(t.Payload))
		if err != nil {
			return false, err
		}
		handled(number)
		ends[i] = settlement{t.Lease, "complete"}
	}
	for len(ends) > 0 {
		var out struct {
			Settled []struct {
				State   string
				Problem struct{ Type string }
			}
		}
		if err := h.post(ctx, "settle", map[string]any{"settlements": ends}, &out); err != nil {
			return false, err
		}
		var locked []settlement
		for i, s := range out.Settled {
			if s.Problem.Type == api.ProblemType+"locked" {
				locked = append(locked, ends[i])
			} else if s.State != "COMPLETED" {
				return false, fmt.Errorf("a settlement was refused: %s", s.Problem.Type)
			}
		}
		ends = locked
	}
	return true, nil
}

// overHTTP measures enqueues and drains over HTTP, beside the same calls of the library.
func overHTTP(ctx context.Context, o options, s *servers) ([]result, error) {
	taken := samples{}
	var entries []*entry
	for _, g := range s.grounds() {
		if !o.only.MatchString(g.group + ": dbq") {
			continue
		}
		var all []*entry
		for _, batch := range []int{1, 100} {
			direct := &dbqTasks{place: g.empty, batch: batch}
			served := &httpTasks{dbqTasks: dbqTasks{place: g.empty, batch: batch}}
			all = append(all, &entry{contender: direct, group: g.group, name: "dbq, loop", role: ours},
				&entry{contender: served, group: g.group, name: "dbq, loop over HTTP", role: ours})
		}
		err := inTurns(ctx, "http, "+g.group, all, o.rounds, func(ctx context.Context, e *entry) error {
			err := taken.servedRound(ctx, e, o.n)
			return errors.Join(err, phase(context.WithoutCancel(ctx), e.Close))
		})
		if err != nil {
			return nil, err
		}
		entries = append(entries, all...)
	}
	return perFirst(results(entries, taken)), nil
}

// servedRound enqueues with several producers, and drains.
func (s samples) servedRound(ctx context.Context, e *entry, n int) error {
	batch, enqueued, drained := 100, httpEnqueue100, httpDrain100
	if d, ok := e.contender.(*dbqTasks); ok {
		batch = d.batch
	} else {
		batch = e.contender.(*httpTasks).batch
	}
	if batch == 1 {
		n, enqueued, drained = max(n/httpShare, 2*loopGoroutines), httpEnqueue1, httpDrain1
	}
	if err := phase(ctx, e.Prepare); err != nil {
		return err
	}
	start := time.Now()
	err := phase(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for p := range loopGoroutines {
			group.Go(func() error { return e.Enqueue(ctx, p*n/loopGoroutines, (p+1)*n/loopGoroutines, batch) })
		}
		return group.Wait()
	})
	if err != nil {
		return err
	}
	s.addRate(e, enqueued, n, time.Since(start))
	took, err := empty(ctx, e, n)
	if err == nil {
		s.addRate(e, drained, n, took)
	}
	return err
}
