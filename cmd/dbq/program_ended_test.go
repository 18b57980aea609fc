//go:build unix

package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// A program exits with 0 and leaves a process behind that keeps its stdout; the worker is told to stop just after
// that, while dbq waits for the pipe. The program has completed and was not stopped.
func TestAProgramThatHasEndedIsNotStopped(t *testing.T) {
	a := &app{surroundings: surroundings{out: io.Discard, err: io.Discard, dir: t.TempDir()}}
	p := newProgramRunner(a, []string{"/bin/sh", "-c", "sleep 3 & exit 0"}, nil, true)
	defer p.stop()
	p.grace = 5 * time.Second
	ctx, stop := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer stop()
	o := p.HandleTask(ctx, dbq.Task{ID: uuid.New(), Queue: "q", MaxAttempts: 3})
	if o.Event() != state.Complete {
		t.Errorf("the program exited with 0 before it was to stop: %v, %v", o.Event(), o.Cause())
	}
}
