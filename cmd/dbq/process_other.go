//go:build !unix

package main

import "os/exec"

// ownGroup, terminateGroup and killGroup know no process groups and no SIGTERM here: the program itself is killed.
func ownGroup(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// becomeInit does nothing: only Linux has containers with a first process of their own.
func becomeInit() error { return nil }
