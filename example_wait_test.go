package dbq_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// Enqueue a task and wait until somebody has done it.
func ExampleClient_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("shout")

	// The worker would be another process.
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		working, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { <-stop; cancel() }()
		w := worker.Worker{Queue: q, Handler: worker.HandlerFunc(func(_ context.Context, t dbq.Task) ([]byte, error) {
			return []byte(strings.ToUpper(string(t.Payload))), nil
		})}
		stopped <- w.Run(working)
	}()

	id, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("hello")})
	if err != nil {
		log.Fatal(err)
	}
	t, err := c.Wait(ctx, id) // COMPLETED, POISON, or parked in ERROR
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %s\n", t.State, t.Result)

	close(stop)
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// COMPLETED: HELLO
}
