package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

const (
	pickups       = 100                   // in a round
	pickupPause   = 15 * time.Millisecond // between two, so that the queue is idle
	pickupTimeout = 10 * time.Second
	bellTasks     = 2000 // enqueued one by one in a round of the cost of notifications
)

// pickup measures the time from when an enqueue is acknowledged to its handler's start, on an idle queue, and what notifications cost
// those who enqueue. The ways take turns in every round.
func pickup(ctx context.Context, o options, folder string) error {
	p := &sqlitePlace{folder: folder, synchronous: "full"}
	ways := []*way{{name: "SQLite, in the process", place: p}}
	var costs []*cost
	if o.dsn != "" {
		pg, err := openPostgres(ctx, o.dsn)
		if err != nil {
			return err
		}
		defer pg.pool.Close()
		defer func() { _ = pg.Clear(context.WithoutCancel(ctx)) }() // the first error is the one to tell
		ways = append(ways,
			&way{name: "PostgreSQL, in the process", place: pg},
			&way{name: "PostgreSQL, by notification", place: pg, apart: true},
			&way{name: "PostgreSQL, by polling alone", place: pg, apart: true, opts: []dbq.Option{dbq.WithoutNotify()}})
		for _, producers := range []int{1, 4, 16} {
			costs = append(costs, &cost{place: pg, producers: producers}, &cost{place: pg, producers: producers, notify: true})
		}
	}
	for range o.rounds {
		for _, w := range ways {
			if err := w.round(ctx); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
		for _, c := range costs {
			if err := c.round(ctx); err != nil {
				return err
			}
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "pick-up on an idle queue\tp50\tp90\tp99")
	for _, w := range ways {
		slices.Sort(w.took)
		at := func(q float64) time.Duration {
			return w.took[int(float64(len(w.took)-1)*q)].Round(10 * time.Microsecond)
		}
		fmt.Fprintf(out, "%s\t%v\t%v\t%v\n", w.name, at(.5), at(.9), at(.99))
	}
	fmt.Fprintln(out, "\nenqueues one by one, with a listener\twithout\twith notifications\tratio")
	for i := 0; i < len(costs); i += 2 {
		without, with := middle(costs[i].rates), middle(costs[i+1].rates)
		fmt.Fprintf(out, "%d producers\t%.0f/s\t%.0f/s\t%.2f\n", costs[i].producers, without, with, with/without)
	}
	return out.Flush()
}

func middle(rates []float64) float64 {
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// way is one way for an enqueue to reach a worker.
type way struct {
	name  string
	place place
	apart bool // the enqueuing client shares no bells with the worker's, as if it were in another process
	opts  []dbq.Option
	took  []time.Duration
}

// elsewhere opens a client that dbq takes for another process's: its DSN is spelled in another way.
func elsewhere(ctx context.Context, p place, opts ...dbq.Option) (*dbq.Client, error) {
	pg, ok := p.(*pgPlace)
	if !ok {
		return nil, fmt.Errorf("only PostgreSQL has notifications")
	}
	sign := "?"
	if strings.Contains(pg.dsn, "?") {
		sign = "&"
	}
	other := *pg
	other.dsn += sign + "application_name=elsewhere"
	return other.Open(ctx, opts...)
}

func (w *way) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	if err := w.place.Clear(ctx); err != nil {
		return err
	}
	c, err := w.place.Open(ctx, append(w.opts, dbq.WithMigrate())...)
	if err != nil {
		return err
	}
	defer c.Close()
	from := c
	if w.apart {
		if from, err = elsewhere(ctx, w.place, w.opts...); err != nil {
			return err
		}
		defer from.Close()
	}
	started := make(chan time.Time, 1)
	run := worker.Worker{Queue: c.Queue("bench"), Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) {
		started <- time.Now()
		return nil, nil
	})}
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run.Run(working) }()
	defer func() {
		stop()
		<-done
	}()
	time.Sleep(500 * time.Millisecond) // the worker has begun to listen
	for range pickups {
		time.Sleep(pickupPause)
		if _, err := from.Queue("bench").Enqueue(ctx, dbq.NewTask{}); err != nil {
			return err
		}
		acknowledged := time.Now()
		select {
		case at := <-started:
			w.took = append(w.took, max(at.Sub(acknowledged), 0)) // a worker may be faster than the answer
		case <-time.After(pickupTimeout):
			return fmt.Errorf("a task was not picked up within %v", pickupTimeout)
		}
	}
	return nil
}

// cost is how fast producers enqueue one by one, with or without notifications.
type cost struct {
	place     place
	producers int
	notify    bool
	rates     []float64
}

func (c *cost) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	if err := c.place.Clear(ctx); err != nil {
		return err
	}
	var opts []dbq.Option
	if !c.notify {
		opts = append(opts, dbq.WithoutNotify())
	}
	client, err := c.place.Open(ctx, append(opts, dbq.WithMigrate())...)
	if err != nil {
		return err
	}
	defer client.Close()
	listener, err := elsewhere(ctx, c.place, opts...)
	if err != nil {
		return err
	}
	defer listener.Close()
	defer listener.Queue("bench").Bell().Close()
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	begin := time.Now()
	for range c.producers {
		group.Go(func() {
			for range bellTasks / c.producers {
				if _, err := client.Queue("bench").Enqueue(ctx, dbq.NewTask{}); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	c.rates = append(c.rates, bellTasks/time.Since(begin).Seconds())
	return nil
}
