package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// dieWithParent has the system kill a program when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// becomeInit does nothing, unless this is the first process of a container. That process inherits the processes that
// programs leave behind, and must reap them. It could take the exit of a program that os/exec waits for. So it runs dbq
// again as a child, passes signals on, and never returns. The child has a process group of its own: a Ctrl-C on the
// terminal must not reach it twice.
func becomeInit() error {
	if os.Getpid() != 1 {
		return nil
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child, err := os.StartProcess(self, os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case pid == child.Pid && status.Signaled():
			os.Exit(128 + int(status.Signal()))
		case pid == child.Pid:
			os.Exit(status.ExitStatus())
		}
	}
}
