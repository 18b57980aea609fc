package worker

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

func newQueue(t *testing.T) *dbq.Queue {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c.Queue("q")
}

// newRunOf makes the parts of a worker's run, and starts none.
func newRunOf(t *testing.T, w Worker) *run {
	t.Helper()
	r, err := w.newRun(t.Context(), nil)
	check.OK(t, err)
	return r
}

// A checkout that finds nothing leaves as much to ask for as there was before it. The fetcher, if it waited for it, is
// woken: no executor will do it.
func TestFetcherIsWokenWhenACheckoutFindsNothing(t *testing.T) {
	t.Parallel()
	waiting := make(chan int, 1)
	var f *fetcher
	f = newRunOf(t, Worker{Queue: newQueue(t), MaxCheckout: 10, Tuning: Tuning{PollMax: time.Hour},
		Handler: Func(func(context.Context, dbq.Task) error { return nil }),
		Observe: func(Observation) { // the tasks that the checkout requested are still to come
			go func() {
				want, _ := f.waitDemand(t.Context())
				waiting <- want
			}()
			time.Sleep(20 * time.Millisecond) // so that it waits; if it does not yet, this test finds nothing
		}}).fetcher
	f.buffer.idle.Store(10)
	if _, _, err := f.checkOut(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	select {
	case want := <-waiting:
		if want != 10 {
			t.Errorf("%d are wanted, want 10", want)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for ever")
	}
}

// An operator may ask for larger batches than the buffer has room for. At the end of the run, the fetcher does not wait
// for executors that take no more.
func TestTasksWithoutRoomAreReleasedAtTheEnd(t *testing.T) {
	t.Parallel()
	f := newRunOf(t, Worker{Queue: newQueue(t), MaxCheckout: 1, Concurrency: 1, Handler: HandlerFunc(nil)}).fetcher
	room := cap(f.buffer.ready)
	if _, err := f.db.EnqueueMany(t.Context(), make([]dbq.NewTask, room+3)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // not before the checkout has its tasks: these must be released
		defer cancel()
		for len(f.buffer.ready) < room && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	if found, _, err := f.checkOut(ctx, room+3); err != nil || found != room+3 {
		t.Fatal(found, err)
	}
	settlements := f.settler.queue.in
	if len(f.buffer.ready) != room || len(settlements) != 3 {
		t.Errorf("%d are ready and %d released, want %d and 3", len(f.buffer.ready), len(settlements), room)
	}
	for range len(settlements) {
		if st := <-settlements; st.how.Event() != state.Release {
			t.Errorf("one is settled by %s", st.how.Event())
		}
	}
}
