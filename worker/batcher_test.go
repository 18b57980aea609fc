package worker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Values that come within the wait of the first are one batch, up to the most.
func TestBatcherCollectsValuesWithinItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher[int](100, 3, time.Second)
		var batches [][]int
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.run(func(batch []int) { batches = append(batches, batch) })
		}()
		for i := range 4 {
			b.in <- i
		}
		synctest.Wait()
		time.Sleep(999 * time.Millisecond)
		b.in <- 4
		time.Sleep(2 * time.Millisecond)
		b.in <- 5
		time.Sleep(2 * time.Second)
		b.stop()
		<-done
		want := [][]int{{0, 1, 2}, {3, 4}, {5}}
		if !slices.EqualFunc(batches, want, slices.Equal) {
			t.Errorf("the batches are %v, want %v", batches, want)
		}
	})
}

// What was added before stop is processed, without a wait.
func TestBatcherProcessesTheRestOnStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher[int](100, 10, time.Hour)
		for i := range 25 {
			b.in <- i
		}
		n, began := 0, time.Now()
		b.stop()
		b.run(func(batch []int) { n += len(batch) })
		if took := time.Since(began); n != 25 || took > 0 {
			t.Errorf("%d values were processed after %v, want 25 at once", n, took)
		}
	})
}
