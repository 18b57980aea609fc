// Command dbq is the task queue's command line: it does what an operator does, runs programs as workers, and shows with
// `dbq demo` what the queue is for. One file per verb.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/dbq-go/dbq/conformance"
)

func main() {
	conformance.Child() // a worker process of dbq conform does that and nothing else
	// The first signal ends the context, so that work in progress ends in order; the second ends the process, as if it had
	// not been caught.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program, and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err, a.began)
	a.complain(ctx, err, code)
	return code
}
