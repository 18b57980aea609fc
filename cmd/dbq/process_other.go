//go:build !unix

package main

import "os/exec"

// ownGroup and killGroup know no process groups here: only the program itself is killed.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
