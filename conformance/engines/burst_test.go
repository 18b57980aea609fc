package engines

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// burstTasks is how many tasks are there at once, for two workers of one executor each.
const burstTasks = 20

// TestBursts measures how two workers share bursts of tasks: DBQ_TEST_BURSTS=N makes N bursts of each kind, and prints
// a table for docs/performance.md. It fails only when a task does not run once, since a busy machine makes it slower.
func TestBursts(t *testing.T) {
	var rounds int
	if _, err := fmt.Sscan(os.Getenv("DBQ_TEST_BURSTS"), &rounds); err != nil {
		t.Skip("a measurement: set DBQ_TEST_BURSTS to a number of bursts, such as 5")
	}
	for _, target := range targets {
		s, err := find(t.Context(), target)
		if err != nil {
			continue
		}
		if s.stop != nil {
			t.Cleanup(func() { _ = s.stop() })
		}
		t.Run(target.name, func(t *testing.T) {
			dsn := s.dsn(t.TempDir())
			prefix := ownTables(t, dsn)
			for _, takes := range []time.Duration{500, 100, 10, 1} {
				for _, warm := range []bool{false, true} {
					burst(t, dsn, prefix, takes*time.Millisecond, warm, rounds)
				}
			}
		})
	}
}

// shared is how a burst went.
type shared struct {
	pickUp time.Duration // from the enqueue's return to the first start
	span   time.Duration // from the first start to the last end
	work   time.Duration // half of what the handlers took, which is what two workers need at least
	most   int           // tasks of the worker that had more of them
}

// burst prints the medians of some bursts, and how the least even one was shared. Cold workers have measured nothing
// yet; warm ones have done a burst of the same tasks.
func burst(t *testing.T, dsn string, prefix dbq.Option, takes time.Duration, warm bool, rounds int) {
	var all []shared
	if !warm {
		for range rounds {
			all = append(all, bursts(t, dsn, prefix, takes, 1)...)
		}
	} else {
		all = bursts(t, dsn, prefix, takes, rounds+1)[1:]
	}
	median := func(of func(shared) time.Duration) time.Duration {
		ds := make([]time.Duration, len(all))
		for i, s := range all {
			ds[i] = of(s)
		}
		slices.Sort(ds)
		return ds[len(ds)/2]
	}
	pickUp := median(func(s shared) time.Duration { return s.pickUp })
	span := median(func(s shared) time.Duration { return s.span })
	work := median(func(s shared) time.Duration { return s.work })
	most := slices.MaxFunc(all, func(a, b shared) int { return cmp.Compare(a.most, b.most) }).most
	how := "cold"
	if warm {
		how = "warm"
	}
	t.Logf("| %v | %s | %.1f ms | %.1f ms | %.1f ms | %.2f | %d / %d |",
		takes, how, ms(pickUp), ms(work), ms(span), float64(span)/float64(work), most, burstTasks-most)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bursts starts two workers and gives them one burst after the other.
func bursts(t *testing.T, dsn string, prefix dbq.Option, takes time.Duration, n int) (out []shared) {
	var mu sync.Mutex
	var by [2]int
	var begun, ended []time.Time
	var clients [2]*dbq.Client
	for i := range clients {
		c, err := dbq.Open(t.Context(), dsn, prefix, dbq.WithMigrate())
		check.OK(t, err)
		defer c.Close() // after the workers have ended
		clients[i] = c
	}
	q := clients[0].Queue("bursts")
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	defer both.Wait()
	defer cancel()
	for i, c := range clients {
		w := worker.Worker{Queue: c.Queue("bursts"), Concurrency: 1}
		w.Handler = worker.Func(func(context.Context, dbq.Task) error {
			start := time.Now()
			time.Sleep(takes)
			mu.Lock()
			defer mu.Unlock()
			by[i]++
			begun, ended = append(begun, start), append(ended, time.Now())
			return nil
		})
		both.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(ended)
	}
	for range n {
		time.Sleep(500 * time.Millisecond) // until they wait
		if _, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, burstTasks)); err != nil {
			t.Fatal(err)
		}
		enqueued := time.Now()
		for deadline := enqueued.Add(time.Minute); count() < burstTasks && time.Now().Before(deadline); {
			time.Sleep(takes)
		}
		mu.Lock()
		if len(ended) != burstTasks {
			t.Fatalf("%d tasks ran, want %d", len(ended), burstTasks)
		}
		first, last := slices.MinFunc(begun, time.Time.Compare), slices.MaxFunc(ended, time.Time.Compare)
		var work time.Duration
		for k := range begun {
			work += ended[k].Sub(begun[k])
		}
		out = append(out, shared{first.Sub(enqueued), last.Sub(first), work / 2, max(by[0], by[1])})
		by, begun, ended = [2]int{}, nil, nil
		mu.Unlock()
	}
	return out
}
