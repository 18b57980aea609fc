package worker

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq"
)

func TestBufferDemand(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	most := int64(q.Client().Info().MaxCheckoutBytes)
	for name, c := range map[string]struct {
		idle, ahead, waiting, bytes, coming int64
		batchSize                           int
		want                                int
	}{
		"nothing to do":                    {want: 0},
		"idle executors":                   {idle: 10, want: 10},
		"idle executors of batches":        {idle: 3, batchSize: 7, want: 21},
		"tasks ahead":                      {idle: 2, ahead: 30, want: 32},
		"at most a batch":                  {ahead: 400, want: 100},
		"those that wait count":            {idle: 10, waiting: 4, want: 6},
		"those that are coming count":      {idle: 10, coming: 5, want: 5},
		"less than half is not worth it":   {idle: 10, waiting: 6, want: 0},
		"one of one is":                    {idle: 1, want: 1},
		"as many bytes as a checkout has":  {idle: 10, waiting: 1, bytes: most, want: 0},
		"less bytes than a checkout has":   {idle: 10, waiting: 1, bytes: most - 1, want: 9},
		"more are coming than are missing": {idle: 10, coming: 100, want: 0},
	} {
		w := Worker{Queue: q, MaxCheckout: 100, Concurrency: 10, Handler: HandlerFunc(nil)}
		if c.batchSize > 0 {
			w.Handler, w.BatchHandler, w.BatchSize = nil, BatchFunc(nil), c.batchSize
		}
		b := newRunOf(t, w).buffer
		b.idle.Store(c.idle)
		b.ahead.Store(c.ahead)
		b.waiting.Store(c.waiting)
		b.waitingBytes.Store(c.bytes)
		b.coming.Store(c.coming)
		if got := b.wanted(); got != c.want {
			t.Errorf("%s: %d are wanted, want %d", name, got, c.want)
		}
	}
}

// Only tasks that have waited for long are taken back, the oldest first, and the others stay.
func TestBufferTakesBackStaleTasks(t *testing.T) {
	t.Parallel()
	b := newRunOf(t, Worker{Queue: newQueue(t), Handler: HandlerFunc(nil)}).buffer
	now := time.Now()
	tasks := make([]leased, 4)
	for i := range tasks {
		tasks[i].task = dbq.Task{Payload: make([]byte, 10)}
		tasks[i].received = now.Add(-staleAfter)
	}
	tasks[3].received = now
	if left := b.put(t.Context(), tasks); len(left) > 0 {
		t.Fatalf("no room for %d", len(left))
	}
	if back := b.stale(2, now); len(back) != 2 || back[0] != &tasks[0] || back[1] != &tasks[1] {
		t.Errorf("%d are taken back first, want the 2 oldest", len(back))
	}
	if back := b.stale(2, now); len(back) != 1 || back[0] != &tasks[2] {
		t.Errorf("%d are taken back then, want the other stale one", len(back))
	}
	if n, bytes := b.waiting.Load(), b.waitingBytes.Load(); n != 1 || bytes != 10 || len(b.drain()) != 1 {
		t.Errorf("%d tasks of %d bytes are left, want 1 of 10", n, bytes)
	}
}
