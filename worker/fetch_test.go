package worker

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// A checkout that finds nothing leaves as much to ask for as there was before it: who waited for it is told, since no handler will.
func TestWhoWaitsForACheckoutIsToldWhenItFindsNothing(t *testing.T) {
	t.Parallel()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waiting := make(chan int, 1)
	var r *run
	w := Worker{Queue: c.Queue("q"), Batch: 10, PollMax: time.Hour, Handler: HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, nil }),
		Observe: func(Event) { // the tasks that the checkout asked for are still to come
			go func() {
				want, _ := r.waitHungry(t.Context(), &supply{})
				waiting <- want
			}()
			time.Sleep(20 * time.Millisecond) // so that it waits; if it does not yet, this test finds nothing
		}}
	if r, err = w.newRun(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.idle.Store(10)
	if _, err := r.checkOut(t.Context(), 10); err != nil {
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
