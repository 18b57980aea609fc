//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this system does not offer it.
func dieWithParent(*syscall.SysProcAttr) {}

// becomeInit does nothing: only Linux has containers with a first process of their own.
func becomeInit() error { return nil }
