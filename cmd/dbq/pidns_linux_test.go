package main

import (
	"os"
	"os/exec"
	"syscall"
)

// inPIDNamespace makes a command the first process of a namespace of its own, and reports whether it may.
func inPIDNamespace(cmd *exec.Cmd) bool {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
	return os.Geteuid() == 0
}
