//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// serveLoad is a load on a server: many clients that enqueue tasks in batches, and then check out and settle them.
type serveLoad struct {
	clients, tasks int
	url            string
	lease          time.Duration
	http           *http.Client

	acknowledged atomic.Int64 // tasks
	settled      atomic.Int64
	repeated     atomic.Int64 // requests
	lost         atomic.Int64 // settlements that were refused

	mu        sync.Mutex
	completed map[string]int // how often a task was reported as completed
}

const loadBatch = 50

// newServeLoad returns a load of 20 clients and 1,000 tasks, times DBQ_TEST_LOAD. More than 200 clients are never used.
func newServeLoad(t *testing.T) *serveLoad {
	factor := 1
	if text := os.Getenv("DBQ_TEST_LOAD"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("DBQ_TEST_LOAD=%s: write a whole number from 1", text)
		}
		factor = n
	}
	l := &serveLoad{clients: min(20*factor, 200), tasks: 1000 * factor, completed: map[string]int{}}
	l.lease = 2*time.Second + time.Duration(l.clients)*40*time.Millisecond
	l.http = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: l.clients}}
	return l
}

// post sends a request until the server answers it.
func (l *serveLoad) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		status, text, err := l.try(ctx, path, body)
		if status == http.StatusOK {
			return json.Unmarshal(text, out)
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		if err == nil && status < 500 {
			return fmt.Errorf("%s: %d %s", path, status, text)
		}
		l.repeated.Add(1)
		time.Sleep(pause/2 + rand.N(pause))
	}
}

func (l *serveLoad) try(ctx context.Context, path string, body []byte) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/db/default/queues/load/"+path,
		bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := l.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		return 0, nil, err
	}
	return answer.StatusCode, text, nil
}

type fields = map[string]any

// enqueue enqueues the tasks of a client, in batches.
func (l *serveLoad) enqueue(ctx context.Context, client int) error {
	share := l.tasks / l.clients
	for from := 0; from < share; from += loadBatch {
		var tasks []fields
		for i := from; i < min(from+loadBatch, share); i++ {
			tasks = append(tasks, fields{"payload": fields{"number": i}, "reference": fmt.Sprintf("%d/%d", client, i)})
		}
		var out struct{ Tasks []struct{ ID string } }
		if err := l.post(ctx, "tasks/batch", fields{"tasks": tasks}, &out); err != nil {
			return err
		}
		l.acknowledged.Add(int64(len(out.Tasks)))
	}
	return nil
}

// work checks out and completes tasks until ctx ends.
func (l *serveLoad) work(ctx context.Context, client int) error {
	for ctx.Err() == nil {
		var found struct{ Tasks []struct{ ID, Lease string } }
		err := l.post(ctx, "checkout", fields{"max": loadBatch, "lease_seconds": l.lease.Seconds(), "wait_seconds": 5,
			"worker": fmt.Sprint("client-", client)}, &found)
		if ctx.Err() != nil || err != nil {
			return err
		}
		var settlements []fields
		for _, t := range found.Tasks {
			settlements = append(settlements, fields{"lease": t.Lease, "outcome": "complete"})
		}
		if len(settlements) == 0 {
			continue
		}
		var out struct{ Settled []struct{ State string } }
		if err := l.post(ctx, "settle", fields{"settlements": settlements}, &out); err != nil {
			return err
		}
		l.mu.Lock()
		for i, s := range out.Settled {
			if s.State == "COMPLETED" {
				l.completed[found.Tasks[i].ID]++
				l.settled.Add(1)
			} else {
				l.lost.Add(1) // an earlier request settled it, whose answer was lost
			}
		}
		l.mu.Unlock()
	}
	return nil
}

// TestServeLosesNothingUnderLoad kills the server while clients enqueue, and again while they settle.
func TestServeLosesNothingUnderLoad(t *testing.T) {
	t.Parallel()
	for _, engine := range servedEngines {
		t.Run(engine, func(t *testing.T) {
			u := newUser(t)
			l := newServeLoad(t)
			u.patience = patience + time.Duration(l.tasks)*5*time.Millisecond
			dsn, _ := ownDatabase(t, engine)
			server := u.serveRestartable(dsn)
			l.url = server.url
			c, err := dbq.Open(t.Context(), dsn)
			check.OK(t, err)
			defer c.Close()
			ctx, stop := context.WithTimeout(t.Context(), u.patience)
			defer stop()
			begin := time.Now()
			enqueued := l.all(ctx, t, l.enqueue)
			until(ctx, t, func() bool { return l.acknowledged.Load() >= int64(l.tasks)/2 })
			server.crash()
			<-enqueued
			enqueueing := time.Since(begin)
			working, end := context.WithCancel(ctx)
			defer end()
			begin = time.Now()
			worked := l.all(working, t, l.work)
			until(ctx, t, func() bool { return l.settled.Load() >= int64(l.tasks)/2 })
			server.crash()
			until(ctx, t, func() bool {
				completed, others := server.count(c)
				return completed == int64(l.tasks) && others == 0
			})
			draining := time.Since(begin)
			end()
			<-worked
			for id, n := range l.completed {
				if n != 1 {
					t.Errorf("task %s was completed %d times", id, n)
				}
			}
			t.Logf("%d clients, %d tasks: enqueued in %v, completed in %v; %d requests and %d outcomes repeated",
				l.clients, l.tasks, enqueueing.Round(time.Millisecond), draining.Round(time.Millisecond), l.repeated.Load(),
				l.lost.Load())
		})
	}
}

// all runs a function for each client. The channel is closed when all have ended.
func (l *serveLoad) all(ctx context.Context, t *testing.T, f func(context.Context, int) error) <-chan struct{} {
	var running sync.WaitGroup
	for client := range l.clients {
		running.Go(func() {
			if err := f(ctx, client); err != nil && ctx.Err() == nil {
				t.Errorf("client %d: %v", client, err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); running.Wait() }()
	return ended
}

// until waits until something is so.
func until(ctx context.Context, t *testing.T, so func() bool) {
	t.Helper()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatal("it takes too long")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
