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
	"github.com/dbq-go/dbq/internal/wire"
)

const httpShare = 10 // one by one, 1/httpShare of the tasks

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
			if s.Problem.Type == wire.Prefix+"locked" {
				locked = append(locked, ends[i])
			} else if s.State != "COMPLETED" {
				return false, fmt.Errorf("a settlement was refused: %s", s.Problem.Type)
			}
		}
		ends = locked
	}
	return true, nil
}

// http measures enqueues and drains over HTTP, beside the same calls of the library.
func (s samples) http(ctx context.Context, o options, on *servers) ([]*entry, error) {
	return on.onEach(o, func(g ground) (all []*entry, err error) {
		batches := map[*entry]int{}
		for _, batch := range []int{1, 100} {
			name := fmt.Sprintf(", %d at a time", batch)
			direct := &entry{contender: &dbqTasks{place: g.empty, batch: batch}, group: g.group, name: "dbq, loop" + name,
				role: ours}
			served := &entry{contender: &httpTasks{dbqTasks: dbqTasks{place: g.empty, batch: batch}}, group: g.group,
				name: "dbq, loop over HTTP" + name, role: ours}
			all = append(all, direct, served)
			batches[direct], batches[served] = batch, batch
		}
		return all, inTurns(ctx, "http, "+g.group, all, o.rounds, func(ctx context.Context, e *entry) error {
			batch, n := batches[e], o.n
			if batch == 1 {
				n = max(n/httpShare, 2*loopGoroutines)
			}
			if err := phase(ctx, e.Prepare); err != nil {
				return err
			}
			took, err := produceAll(ctx, e, loopGoroutines, n, batch)
			if err == nil {
				s.addRate(e, bulk, n, took)
				took, err = empty(ctx, e, n)
			}
			if err == nil {
				s.addRate(e, drain, n, took)
			}
			return errors.Join(err, phase(context.WithoutCancel(ctx), e.Close))
		})
	})
}
