package bridge_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// A queue of one database is sent to an endpoint, which enqueues the tasks in another database.
func Example() {
	ctx := context.Background()
	open := func() *dbq.Client {
		c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate(), dbq.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			panic(err)
		}
		return c
	}
	sender, receiver := open(), open()
	defer sender.Close()
	defer receiver.Close()
	secret := bridge.NewSecret() // usually: bridge.ParseSecret(os.Getenv("WEBHOOK_SECRET"))

	endpoint, err := bridge.NewReceiver(bridge.ReceiverConfig{
		Queue: receiver.Queue("incoming"), Secrets: []bridge.Secret{secret}, Kind: "order",
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/shop", endpoint)
	server := httptest.NewServer(mux)
	defer server.Close()

	hook, err := bridge.NewWebhook(bridge.WebhookConfig{Endpoint: bridge.Endpoint{
		URL: server.URL + "/hooks/shop", Secrets: []bridge.Secret{secret},
		PlainHTTP: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, // for this example only
	}})
	if err != nil {
		panic(err)
	}
	if _, err := sender.Queue("notify").Enqueue(ctx, dbq.NewTask{Payload: []byte(`{"order":42}`)}); err != nil {
		panic(err)
	}
	w := hook.Worker(sender.Queue("notify"))
	w.UntilEmpty = true
	if err := w.Run(ctx); err != nil {
		panic(err)
	}

	tasks, err := receiver.Queue("incoming").Checkout(ctx, 1, dbq.MaxLease)
	if err != nil {
		panic(err)
	}
	fmt.Println(tasks[0].Kind, string(tasks[0].Payload))

	forged, err := http.Post(server.URL+"/hooks/shop", "application/json", http.NoBody)
	if err != nil {
		panic(err)
	}
	defer forged.Body.Close()
	problem, _ := io.ReadAll(forged.Body)
	fmt.Println(forged.StatusCode, string(problem[:45])+"…")
	// Output:
	// order {"order":42}
	// 400 {"type":"urn:dbq:problem:signature-headers","…
}
