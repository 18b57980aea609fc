package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"golang.org/x/sync/errgroup"
)

const (
	pickupP50 figure = "pick-up, idle queue, p50"
	pickupP95 figure = "pick-up, idle queue, p95"
	pickupP99 figure = "pick-up, idle queue, p99"
	loadedP50 figure = "pick-up, half load, p50"
	loadedP95 figure = "pick-up, half load, p95"
	loadedP99 figure = "pick-up, half load, p99"
	calledP50 figure = "enqueue and pick-up, half load, p50"
	calledP95 figure = "enqueue and pick-up, half load, p95"
	calledP99 figure = "enqueue and pick-up, half load, p99"

	pickups       = 200                   // in a round
	pickupPause   = 15 * time.Millisecond // between two, so that the queue is idle
	pickupTimeout = 10 * time.Second
	loadProducers = 4
	loadTime      = 3 * time.Second
	notifyTasks   = 2000 // enqueued one by one in a round of the cost of notifications
	settleIn      = 500 * time.Millisecond
)

// costFigure is the rate at which producers enqueue one by one while a worker listens.
func costFigure(producers int) figure {
	return figure(plural("single enqueue, %d producer%s, with a listener", producers))
}

// pickup measures the time to the start of a task's handler, from the call that enqueues it and from the
// acknowledgement of that call, on an idle queue and at half load. It also measures what notifications cost an enqueue.
// Half load is the same rate for all contenders on a server: half of what the slowest of them keeps up with.
func pickup(ctx context.Context, o options, s *servers) ([]result, error) {
	taken := samples{}
	var entries []*entry
	for _, ways := range s.ways() {
		ways = slices.DeleteFunc(ways, func(w *way) bool { return !o.only.MatchString(w.group + ": " + w.name) })
		if len(ways) == 0 {
			continue
		}
		limit := 0.0
		for _, w := range ways {
			entries = append(entries, w.entry)
			took, err := w.full(ctx, o)
			if err != nil {
				return nil, fmt.Errorf("%s, full load: %w", w.key(), err)
			}
			fmt.Fprintf(os.Stderr, "  %s keeps up with %.0f tasks/s\n", w.key(), took)
			if limit == 0 || took < limit {
				limit = took
			}
		}
		for round := range o.rounds {
			fmt.Fprintf(os.Stderr, "pickup, %s, round %d of %d\n", ways[0].group, round+1, o.rounds)
			for _, w := range ways {
				if err := taken.pickup(ctx, w, o, limit/2); err != nil {
					return nil, fmt.Errorf("%s: %w", w.key(), err)
				}
			}
		}
	}
	if s.pg != nil {
		quiet := &entry{group: postgresDB, name: "dbq without notifications", role: ours}
		notified := &entry{group: postgresDB, name: "dbq with notifications", role: ours}
		entries = append(entries, quiet, notified)
		for range o.rounds {
			for _, producers := range []int{1, 4, 16} {
				for _, e := range []*entry{quiet, notified} {
					rate, err := enqueueRate(ctx, s.pg, producers, e == notified)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", e.key(), err)
					}
					taken.add(e, costFigure(producers), notifyTasks, rate)
				}
			}
		}
	}
	return results(entries, taken), nil
}

// times are when each task was enqueued, acknowledged and started, by its number.
type times struct {
	mu       sync.Mutex
	called   map[int]time.Time
	acked    map[int]time.Time
	started  map[int]time.Time
	starting chan int
}

func newTimes() *times {
	return &times{
		called: map[int]time.Time{}, acked: map[int]time.Time{}, started: map[int]time.Time{},
		starting: make(chan int, 1<<20),
	}
}

func (t *times) start(number int, at time.Time) {
	t.mu.Lock()
	t.started[number] = at
	t.mu.Unlock()
	t.starting <- number
}

// put enqueues a task and records when.
func (t *times) put(ctx context.Context, number int, enqueue enqueuer) error {
	called := time.Now()
	if err := enqueue(ctx, number); err != nil {
		return err
	}
	acked := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.called[number], t.acked[number] = called, acked
	return nil
}

// await waits until n tasks have been started in all.
func (t *times) await(ctx context.Context, n int) error {
	timeout := time.After(pickupTimeout)
	for {
		t.mu.Lock()
		have := len(t.started)
		t.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-t.starting:
		case <-timeout:
			return fmt.Errorf("%d of %d tasks were started within %v", have, n, pickupTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waits returns the times from these to the starts, sorted. If a task starts before its acknowledgement, its time is 0.
func (t *times) waits(since map[int]time.Time) []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []time.Duration
	for number, at := range since {
		all = append(all, max(t.started[number].Sub(at), 0))
	}
	slices.Sort(all)
	return all
}

// use runs f while a worker runs.
func (w *way) use(
	ctx context.Context, f func(ctx context.Context, enqueue enqueuer, t *times) error,
) (*times, error) {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	t := newTimes()
	enqueue, stop, err := w.start(ctx, t.start)
	if err != nil {
		return nil, err
	}
	time.Sleep(settleIn) // the worker has begun to listen
	return t, errors.Join(f(ctx, enqueue, t), stop(), w.Close(context.WithoutCancel(ctx)))
}

// full returns the rate at which tasks are enqueued one by one without pauses, and started.
func (w *way) full(ctx context.Context, o options) (float64, error) {
	var rate float64
	_, err := w.use(ctx, func(ctx context.Context, enqueue enqueuer, t *times) error {
		begin := time.Now()
		n, err := produce(ctx, enqueue, t, o.loadTime(), 0)
		if err == nil {
			err = t.await(ctx, n)
		}
		rate = float64(n) / time.Since(begin).Seconds()
		return err
	})
	return rate, err
}

func (o options) loadTime() time.Duration {
	if o.smoke {
		return loadTime / 10
	}
	return loadTime
}

// produce enqueues tasks one by one, perSecond of them or, if that is 0, without pauses. It returns their number.
func produce(
	ctx context.Context, enqueue enqueuer, t *times, during time.Duration, perSecond float64,
) (int, error) {
	begin := time.Now()
	until := begin.Add(during)
	counts := make([]int, loadProducers)
	group, ctx := errgroup.WithContext(ctx)
	for p := range loadProducers {
		group.Go(func() error {
			for i := 0; time.Now().Before(until); i++ {
				number := i*loadProducers + p
				if perSecond > 0 { // a producer that is late catches up
					at := time.Duration(float64(number) / perSecond * float64(time.Second))
					time.Sleep(time.Until(begin.Add(at)))
				}
				if err := t.put(ctx, number, enqueue); err != nil {
					return err
				}
				counts[p]++
			}
			return nil
		})
	}
	err := group.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}

// pickup runs a round on an idle queue, and one at perSecond tasks.
func (s samples) pickup(ctx context.Context, w *way, o options, perSecond float64) error {
	add := func(t *times, since map[int]time.Time, figures ...figure) {
		waits := t.waits(since)
		for i, q := range []float64{.50, .95, .99} {
			s.add(w.entry, figures[i], len(waits), ms(waits[int(float64(len(waits)-1)*q)]))
		}
	}
	n := pickups
	if o.smoke {
		n = 20
	}
	t, err := w.use(ctx, func(ctx context.Context, enqueue enqueuer, t *times) error {
		for i := range n {
			time.Sleep(pickupPause)
			if err := t.put(ctx, i, enqueue); err != nil {
				return err
			}
			if err := t.await(ctx, i+1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	add(t, t.acked, pickupP50, pickupP95, pickupP99)
	t, err = w.use(ctx, func(ctx context.Context, enqueue enqueuer, t *times) error {
		n, err := produce(ctx, enqueue, t, o.loadTime(), perSecond)
		if err != nil {
			return err
		}
		return t.await(ctx, n)
	})
	if err != nil {
		return err
	}
	add(t, t.acked, loadedP50, loadedP95, loadedP99)
	add(t, t.called, calledP50, calledP95, calledP99)
	return nil
}

// enqueueRate returns the rate at which producers enqueue one by one, with or without notifications.
func enqueueRate(ctx context.Context, p *pgPlace, producers int, notify bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	if err := p.Clear(ctx); err != nil {
		return 0, err
	}
	var opts []dbq.Option
	if !notify {
		opts = append(opts, dbq.WithoutNotify())
	}
	client, err := p.Open(ctx, append(opts, dbq.WithMigrate(), dbq.WithStrategy(dialect.SkipLocked))...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	listener, err := elsewhere(ctx, p, opts...)
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	defer listener.Queue("bench").Consumer().Close()
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range producers {
		group.Go(func() error {
			for range notifyTasks / producers {
				if _, err := client.Queue("bench").Enqueue(ctx, dbq.NewTask{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return notifyTasks / time.Since(begin).Seconds(), err
}
