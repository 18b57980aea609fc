package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	pickups       = 200                   // in a round
	pickupPause   = 15 * time.Millisecond // between two, so that the queue is idle
	pickupTimeout = 10 * time.Second
	loadProducers = 4
	loadTime      = 3 * time.Second
	settleIn      = 500 * time.Millisecond
)

// pickups measures the time to the start of a task's handler, from the call that enqueues it and from the
// acknowledgement of that call, on an idle queue and at half load. Half load is the same rate for all contenders on a
// server: half of what the slowest of them keeps up with.
func (s samples) pickups(ctx context.Context, o options, on *servers) (entries []*entry, err error) {
	for _, ways := range on.ways() {
		ways = slices.DeleteFunc(ways, func(w *way) bool { return !o.only.MatchString(w.key()) })
		limit := 0.0
		for _, w := range ways {
			entries = append(entries, w.entry)
			rate, err := w.full(ctx, o)
			if err != nil {
				return nil, fmt.Errorf("%s, full load: %w", w.key(), err)
			}
			fmt.Fprintf(os.Stderr, "  %s keeps up with %.0f tasks/s\n", w.key(), rate)
			if limit == 0 || rate < limit {
				limit = rate
			}
		}
		for round := range o.rounds {
			fmt.Fprintf(os.Stderr, "pickup, round %d of %d\n", round+1, o.rounds)
			for _, w := range ways {
				if err := s.pickup(ctx, w, o, limit/2); err != nil {
					return nil, fmt.Errorf("%s: %w", w.key(), err)
				}
			}
		}
	}
	return entries, nil
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

// start records that a handler has begun.
func (t *times) start(number int) {
	at := time.Now()
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

// addTo adds quantiles of the times from these to the starts. If a task starts before its acknowledgement, its time is
// 0.
func (t *times) addTo(s samples, e *entry, since map[int]time.Time, p50, p95, p99 figure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var waits []time.Duration
	for number, at := range since {
		waits = append(waits, max(t.started[number].Sub(at), 0))
	}
	slices.Sort(waits)
	for f, q := range map[figure]float64{p50: .50, p95: .95, p99: .99} {
		s.add(e, f, ms(waits[int(float64(len(waits)-1)*q)]))
	}
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
func (w *way) full(ctx context.Context, o options) (rate float64, err error) {
	_, err = w.use(ctx, func(ctx context.Context, enqueue enqueuer, t *times) error {
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
) (total int, err error) {
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
	err = group.Wait()
	for _, n := range counts {
		total += n
	}
	return total, err
}

// pickup runs a round on an idle queue, and one at perSecond tasks.
func (s samples) pickup(ctx context.Context, w *way, o options, perSecond float64) error {
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
	t.addTo(s, w.entry, t.acked, idleP50, idleP95, idleP99)
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
	t.addTo(s, w.entry, t.acked, loadedP50, loadedP95, loadedP99)
	t.addTo(s, w.entry, t.called, calledP50, calledP95, calledP99)
	return nil
}
