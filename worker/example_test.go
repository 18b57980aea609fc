package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// send is a handler. The outcome it returns decides what becomes of the task.
func send(ctx context.Context, t dbq.Task) dbq.Outcome {
	switch address := string(t.Payload); address {
	case "":
		return dbq.Poisoned(errors.New("no address")) // another attempt would not help
	case "busy@example.com":
		return dbq.Released(time.Hour) // not now; this attempt does not count
	case "down@example.com":
		return dbq.Failed(errors.New("cannot connect")) // retried after the backoff until attempts are exhausted
	default:
		return dbq.Completed([]byte("sent to " + address)) // COMPLETED, with a result
	}
}

// A worker takes the tasks of a queue and hands them to its handler, several at a time.
func Example() {
	// A signal makes Run drain: it takes nothing new, finishes what it has begun, and hands the rest back.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	out, err := q.EnqueueMany(ctx, []dbq.NewTask{
		{Payload: []byte("ann@example.com")}, {},
		{Payload: []byte("busy@example.com")}, {Payload: []byte("down@example.com")},
	})
	if err != nil {
		log.Fatal(err)
	}

	w := worker.Worker{
		Queue:       q,
		Handler:     worker.HandlerFunc(send),
		Concurrency: 4,
		UntilEmpty:  true, // for this example; else Run goes on until ctx ends
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}

	for _, o := range out {
		t, err := c.Get(ctx, o.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v, attempt %d, %q\n", t.State, t.Attempt, t.Result)
	}
	// Output:
	// COMPLETED, attempt 1, "sent to ann@example.com"
	// POISON, attempt 1, "no address"
	// CREATED, attempt 0, ""
	// ERROR, attempt 1, "cannot connect"
}
