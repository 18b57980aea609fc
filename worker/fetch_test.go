package worker

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/state"
)

func newQueue(t *testing.T) *dbq.Queue {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.Queue("q")
}

// A checkout that finds nothing leaves as much to ask for as there was before it: who waited for it is told, since no handler will.
func TestWhoWaitsForACheckoutIsToldWhenItFindsNothing(t *testing.T) {
	t.Parallel()
	waiting := make(chan int, 1)
	var r *run
	w := Worker{Queue: newQueue(t), Batch: 10, PollMax: time.Hour, Handler: HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, nil }),
		Observe: func(Event) { // the tasks that the checkout asked for are still to come
			go func() {
				want, _ := r.waitHungry(t.Context(), &supply{})
				waiting <- want
			}()
			time.Sleep(20 * time.Millisecond) // so that it waits; if it does not yet, this test finds nothing
		}}
	var err error
	if r, err = w.newRun(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.idle.Store(10)
	if _, _, err := r.checkOut(t.Context(), 10); err != nil {
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

// An operator may ask for larger batches than the worker has room for. Told to end, it does not wait for handlers that take no more.
func TestWhatThereIsNoRoomForIsHandedBackAtTheEnd(t *testing.T) {
	t.Parallel()
	w := Worker{Queue: newQueue(t), Batch: 1, Concurrency: 1, Handler: HandlerFunc(nil)}
	r, err := w.newRun(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	room := cap(r.ready)
	if _, err := w.Queue.EnqueueMany(t.Context(), make([]dbq.NewTask, room+3)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // not before the checkout has its tasks: they are what is to be handed back
		defer cancel()
		for len(r.ready) < room && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	if found, _, err := r.checkOut(ctx, room+3); err != nil || found != room+3 {
		t.Fatal(found, err)
	}
	if len(r.ready) != room || len(r.settler.in) != 3 {
		t.Errorf("%d are ready and %d handed back, want %d and 3", len(r.ready), len(r.settler.in), room)
	}
	for range len(r.settler.in) {
		if st := <-r.settler.in; st.s.Event() != state.Release {
			t.Errorf("one is settled by %s", st.s.Event())
		}
	}
}
