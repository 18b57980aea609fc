//go:build unix && !linux

package main

import "os/exec"

func inPIDNamespace(*exec.Cmd) bool { return false }
