package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

type orderPlaced struct {
	Order   string
	Version int
}

var publish = dbq.Kind[orderPlaced]{Name: "order-placed", Queue: "outbox"}

// place stores an order and the event that announces it: both are committed, or neither is.
func place(ctx context.Context, c *dbq.Client, order string) error {
	tx, err := c.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (name, version) VALUES (?, 1)", order); err != nil {
		return err
	}
	if _, err := publish.EnqueueTx(ctx, tx, c, orderPlaced{order, 1}); err != nil {
		return err
	}
	return tx.Commit()
}

// deliver posts an event to another system. The task's id lets the receiver recognize a second delivery.
func deliver(url string) func(ctx context.Context, t dbq.Task, e orderPlaced) error {
	return func(ctx context.Context, t dbq.Task, e orderPlaced) error {
		body, err := json.Marshal(e)
		if err != nil {
			return dbq.Poisoned(err)
		}
		ctx, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return dbq.Poisoned(err)
		}
		request.Header.Set("Idempotency-Key", t.ID.String())
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err // retried after a backoff
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		switch failed := errors.New("the receiver answered " + answer.Status); {
		case answer.StatusCode == http.StatusTooManyRequests:
			return dbq.RetryIn(time.Minute, failed)
		case answer.StatusCode >= 500:
			return failed
		case answer.StatusCode >= 400:
			return dbq.Poisoned(failed) // repeating the same request would not help
		}
		return nil
	}
}

// The receiver fails once after it has stored the event. It recognizes the second delivery by its key.
func Example_outbox() {
	ctx := context.Background()
	c := open(ctx, "CREATE TABLE orders (name TEXT PRIMARY KEY, version INTEGER)")
	defer c.Close()
	received := map[string]string{}
	deliveries := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		must(err)
		received[r.Header.Get("Idempotency-Key")] = string(body)
		if deliveries++; deliveries == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer receiver.Close()

	must(place(ctx, c, "books"))
	mux := worker.NewMux()
	worker.Handle(mux, publish, deliver(receiver.URL))
	mux.SetPolicy(publish.Name, worker.Policy{Backoff: func(int) time.Duration { return time.Millisecond }})
	for number(ctx, c, "SELECT count(*) FROM dbq_task WHERE state <> 2") > 0 {
		work(ctx, c, publish.Queue, mux)
	}
	fmt.Println("deliveries:", deliveries)
	for _, event := range received {
		fmt.Println(event)
	}
	// Output:
	// deliveries: 2
	// {"Order":"books","Version":1}
}
