package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/dbq-go/dbq"
)

// acceptor settles a demo worker's attempts and notes those that the database granted, so that the demo counts what workers were
// told, and not what the queue says of itself. It settles several in one transaction: one at a time would mostly wait for the disk.
type acceptor struct {
	queue *dbq.Queue
	notes *os.File // opened for appending: a line is one write, also with several processes
	in    chan attempt
}

// attempt is a settlement and where its handler waits for the outcome.
type attempt struct {
	dbq.Settlement
	done chan error
}

// gather is how long the first of several settlements waits for others.
const gather = 2 * time.Millisecond

func (a *acceptor) settle(s dbq.Settlement) error {
	at := attempt{s, make(chan error, 1)}
	a.in <- at
	return <-at.done
}

// run settles until ctx ends.
func (a *acceptor) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-a.in:
			batch := []attempt{first}
			for timer := time.After(gather); timer != nil; {
				select {
				case at := <-a.in:
					batch = append(batch, at)
				case <-timer:
					timer = nil
				}
			}
			a.flush(ctx, batch)
		}
	}
}

func (a *acceptor) flush(ctx context.Context, batch []attempt) {
	ss := make([]dbq.Settlement, len(batch))
	for i, at := range batch {
		ss[i] = at.Settlement
	}
	out, err := a.queue.Settle(ctx, ss)
	for i, at := range batch {
		each := err
		if each == nil {
			each = out[i].Err
		}
		if each == nil {
			_, each = fmt.Fprintf(a.notes, "%s %d\n", at.Lease.Task, at.Lease.Fence)
		}
		at.done <- each
	}
}
