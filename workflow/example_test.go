package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

type (
	order   struct{ Number string }
	receipt struct{ Cents int }
	part    struct{ Words []string }
)

var (
	charge  = dbq.Kind[order]{Name: "charge", Queue: "orders"}
	pack    = dbq.Kind[order]{Name: "pack", Queue: "orders"}
	ship    = dbq.Kind[order]{Name: "ship", Queue: "orders"}
	count   = dbq.Kind[part]{Name: "count", Queue: "words"}
	addUp   = dbq.Kind[struct{}]{Name: "add-up", Queue: "words"}
	perhaps = dbq.Kind[string]{Name: "perhaps", Queue: "numbers"}
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func openInMemory(ctx context.Context) *dbq.Client {
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	must(err)
	return c
}

// work runs a worker until a task has ended.
func work(ctx context.Context, c *dbq.Client, queue string, h worker.Handler, last uuid.UUID) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error)
	w := worker.Worker{Queue: c.Queue(queue), Handler: h}
	go func() { done <- w.Run(ctx) }()
	_, err := c.Wait(ctx, last)
	must(err)
	stop()
	must(<-done)
}

// The order is shipped when it is paid and packed.
func Example() {
	ctx := context.Background()
	c := openInMemory(ctx)
	defer c.Close()
	o := order{"A-1"}
	w, err := workflow.Enqueue(ctx, c, []workflow.Step{
		workflow.NewStep("charge", charge, o),
		workflow.NewStep("pack", pack, o),
		workflow.NewStep("ship", ship, o, "charge", "pack"),
	})
	must(err)

	mux := worker.NewMux()
	worker.HandleResult(mux, charge, func(context.Context, dbq.Task, order) (receipt, error) {
		return receipt{Cents: 1200}, nil
	})
	worker.Handle(mux, pack, func(context.Context, dbq.Task, order) error { return nil })
	worker.Handle(mux, ship, func(ctx context.Context, t dbq.Task, o order) error {
		r, err := workflow.Result[receipt](ctx, worker.Client(ctx), t.ID, "charge")
		if err != nil {
			return err
		}
		fmt.Printf("ship %s, for which %d cents were paid\n", o.Number, r.Cents)
		return nil
	})
	work(ctx, c, "orders", mux, w.TaskIDs[2])

	info, err := workflow.Get(ctx, c, w.ID, 0)
	must(err)
	for _, s := range info.Steps {
		fmt.Println(s.Name, s.Status())
	}
	// Output:
	// ship A-1, for which 1200 cents were paid
	// charge COMPLETED
	// pack COMPLETED
	// ship COMPLETED
}

// The last step needs all others and adds their results up.
func ExampleNeeds() {
	ctx := context.Background()
	c := openInMemory(ctx)
	defer c.Close()
	var steps []workflow.Step
	for i, p := range []part{{[]string{"to", "be"}}, {[]string{"or"}}, {[]string{"not", "to", "be"}}} {
		steps = append(steps, workflow.NewStep(fmt.Sprint("count ", i), count, p))
	}
	steps = append(steps, workflow.NewStep("add up", addUp, struct{}{}, workflow.Names(steps)...))
	w, err := workflow.Enqueue(ctx, c, steps)
	must(err)

	mux := worker.NewMux()
	worker.HandleResult(mux, count, func(_ context.Context, _ dbq.Task, p part) (int, error) { return len(p.Words), nil })
	worker.Handle(mux, addUp, func(ctx context.Context, t dbq.Task, _ struct{}) error {
		total := 0
		for s, err := range workflow.Needs(ctx, worker.Client(ctx), t.ID) {
			if err != nil {
				return err
			}
			var words int
			if err := s.Decode(&words); err != nil {
				return err
			}
			total += words
		}
		fmt.Println(total, "words")
		return nil
	})
	work(ctx, c, "words", mux, w.TaskIDs[3])
	// Output: 6 words
}

// A step that ignores failures finds out which of its needs have no result.
func ExampleResult() {
	ctx := context.Background()
	c := openInMemory(ctx)
	defer c.Close()
	total := workflow.NewStep("total", perhaps, "", "one", "two")
	total.OnFailure = workflow.IgnoreFailure
	w, err := workflow.Enqueue(ctx, c, []workflow.Step{
		workflow.NewStep("one", perhaps, "1"), workflow.NewStep("two", perhaps, "?"), total,
	})
	must(err)

	mux := worker.NewMux()
	worker.HandleResult(mux, perhaps, func(ctx context.Context, t dbq.Task, text string) (n int, err error) {
		if text != "" {
			if _, err := fmt.Sscan(text, &n); err != nil {
				return 0, dbq.Poisoned(errors.New("not a number"))
			}
			return n, nil
		}
		for _, step := range []string{"one", "two"} {
			n, err := workflow.Result[int](ctx, worker.Client(ctx), t.ID, step)
			fmt.Println(step, n, errors.Is(err, workflow.ErrNoResult))
		}
		return 0, nil
	})
	work(ctx, c, "numbers", mux, w.TaskIDs[2])
	// Output:
	// one 1 false
	// two 0 true
}

func ExampleInfo_Mermaid() {
	ctx := context.Background()
	c := openInMemory(ctx)
	defer c.Close()
	w, err := workflow.Enqueue(ctx, c, []workflow.Step{
		workflow.NewStep("charge", charge, order{}),
		workflow.NewStep("ship", ship, order{}, "charge"),
	})
	must(err)
	info, err := workflow.Get(ctx, c, w.ID, 0)
	must(err)
	fmt.Print(info.Mermaid())
	// Output:
	// flowchart TD
	//   n0["charge<br/>CREATED"]
	//   n1["ship<br/>CREATED, waits for 1"]
	//   n0 --> n1
}
