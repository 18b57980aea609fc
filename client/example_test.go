package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/client"
	"github.com/dbq-go/dbq/worker"
)

// A program without access to the database works on a queue through a server, with the handlers of package worker.
func ExampleWorker() {
	ctx := context.Background()
	db, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate(), dbq.WithLogger(quiet))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	handler, err := api.New(api.Config{
		Databases: map[string]*dbq.Client{"default": db}, Authenticator: auth.Loopback{}, Logger: quiet,
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(handler) // usually dbq serve
	defer server.Close()

	c, err := client.New(client.Config{URL: server.URL, Logger: quiet})
	if err != nil {
		panic(err)
	}
	type mail struct{ To string }
	sendMail := dbq.Kind[mail]{Name: "send-mail", Queue: "mail"}
	task, err := sendMail.Task(mail{To: "ann@example.com"})
	if err != nil {
		panic(err)
	}
	if _, err := c.Queue("mail").Enqueue(ctx, task); err != nil {
		panic(err)
	}
	mux := worker.NewMux()
	worker.Handle(mux, sendMail, func(ctx context.Context, t dbq.Task, m mail) error {
		fmt.Println("sending mail to", m.To)
		return nil
	})
	w := worker.Worker{Queue: c.Queue("mail"), Handler: mux, UntilEmpty: true}
	if err := w.Run(ctx); err != nil {
		panic(err)
	}
	// Output: sending mail to ann@example.com
}

var quiet = slog.New(slog.DiscardHandler)
