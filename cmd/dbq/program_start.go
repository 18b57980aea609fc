package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// payloadFile is a file without a name that holds a payload, to be a program's stdin. It is complete before the program
// starts: through a pipe, a program whose worker is killed would see an early end of file and could not tell it from
// the end of the payload.
func payloadFile(payload []byte) (f *os.File, err error) {
	f, err = os.CreateTemp("", "dbq-payload-")
	if err != nil {
		return nil, fmt.Errorf("cannot store the payload: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			f, err = nil, fmt.Errorf("cannot store the payload: %w", err)
		}
	}()
	// Where an open file cannot be removed, closePayload does it.
	if err := os.Remove(f.Name()); err != nil && runtime.GOOS != "windows" {
		return f, err
	}
	if _, err := f.Write(payload); err != nil {
		return f, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// closePayload gives the file back.
func closePayload(f *os.File) {
	f.Close()
	if runtime.GOOS == "windows" {
		_ = os.Remove(f.Name())
	}
}

// starter starts programs from one thread that lasts until stop. On Linux a program that dies with its parent dies with
// the thread that started it, and Go's other threads may end sooner than the process.
type starter struct {
	requests chan startRequest
	done     chan struct{}
}

type startRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

func newStarter() *starter {
	s := &starter{requests: make(chan startRequest), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for {
			select {
			case r := <-s.requests:
				r.reply <- r.cmd.Start()
			case <-s.done:
				return
			}
		}
	}()
	return s
}

// start is cmd.Start.
func (s *starter) start(cmd *exec.Cmd) error {
	r := startRequest{cmd, make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.reply
	case <-s.done:
		return errors.New("dbq is stopping")
	}
}

// stop ends the thread, and with it, on Linux, programs that still run.
func (s *starter) stop() { close(s.done) }
