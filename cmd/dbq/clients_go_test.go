//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
)

// goWorker is the worker of package client that the tests of all clients run.
const goWorker = `package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/client"
	"github.com/dbq-go/dbq/worker"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var lease, _ = time.ParseDuration(os.Getenv("LEASE") + "s")

func event(words ...any) {
	f, err := os.OpenFile(os.Getenv("EVENTS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = fmt.Fprintln(f, words...)
	must(errors.Join(err, f.Close()))
}

func handle(ctx context.Context, t dbq.Task) dbq.Outcome {
	event("started", t.ID, t.Attempt)
	wait := rand.N(50 * time.Millisecond)
	switch text := string(t.Payload); {
	case text == "long":
		must(worker.SetProgress(ctx, []byte("half")))
		wait = lease * 3 / 2
	case text == "hang" && t.Attempt == 1:
		<-ctx.Done()
		event("lost", t.ID)
	case text == "retry" && t.Attempt == 1:
		return dbq.RetryIn(100*time.Millisecond, errors.New("busy"))
	case text == "fail":
		return dbq.Failed(errors.New("error: broken"))
	}
	select {
	case <-ctx.Done():
		return dbq.Failed(context.Cause(ctx))
	case <-time.After(wait):
	}
	for string(t.Payload) == "long" && ctx.Err() == nil {
		if _, err := os.Stat("seen"); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	event("done", t.ID)
	return dbq.Completed(worker.Progress(ctx))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := client.New(client.Config{
		URL: os.Getenv("URL"), TokenFile: os.Getenv("DBQ_TOKEN_FILE"), RetryFor: time.Minute,
	})
	must(err)
	for _, text := range os.Args[1:] {
		task := dbq.NewTask{Payload: []byte(text)}
		added, err := c.Queue("mail").EnqueueMany(ctx, []dbq.NewTask{task, task})
		must(err)
		event("enqueued", added[0].ID, added[1].ID)
	}
	if len(os.Args) == 1 {
		w := worker.Worker{Queue: c.Queue("mail"), Handler: worker.HandlerFunc(handle), Concurrency: 4,
			Lease: lease, Tuning: worker.Tuning{PollMax: time.Second}}
		must(w.Run(ctx))
	}
}
`

// build compiles a worker in Go once, as a program of this module that cannot import its internal packages.
func (u *user) build(script string) (program string) {
	u.t.Helper()
	program = u.file(strings.TrimSuffix(script, ".go"))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if out, err := exec.Command("go", "build", "-o", program, u.file(script)).CombinedOutput(); err != nil {
		u.t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
