package worker

import "time"

// A batcher collects values from many goroutines into batches: up to most values, or those that arrive within wait of
// the first.
type batcher[T any] struct {
	in      chan T
	most    int
	wait    time.Duration
	stopped chan struct{}
}

func newBatcher[T any](room, most int, wait time.Duration) batcher[T] {
	return batcher[T]{in: make(chan T, room), most: most, wait: wait, stopped: make(chan struct{})}
}

// stop makes run return once it has processed the values added before.
func (b *batcher[T]) stop() { close(b.stopped) }

// run calls process with each batch until stop. Several goroutines can run it at the same time.
func (b *batcher[T]) run(process func(batch []T)) {
	for {
		select {
		case first := <-b.in:
			process(b.collect(first))
		case <-b.stopped:
			for {
				select {
				case first := <-b.in:
					process(b.collect(first))
				default:
					return
				}
			}
		}
	}
}

func (b *batcher[T]) collect(first T) []T {
	batch := append(make([]T, 0, 64), first)
	over := time.After(b.wait)
	for len(batch) < b.most {
		select {
		case v := <-b.in:
			batch = append(batch, v)
			continue
		default: // a select of one channel is the fast one
		}
		select {
		case v := <-b.in:
			batch = append(batch, v)
		case <-over:
			return batch
		case <-b.stopped:
			return batch
		}
	}
	return batch
}
