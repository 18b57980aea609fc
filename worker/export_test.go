package worker

import (
	"bytes"
	"runtime"
	"time"
)

func init() {
	cleanEvery = 100 * time.Millisecond
}

// Slots is how many goroutines wait for tasks or handle one, of all workers.
func Slots() int {
	buf := make([]byte, maxStacks)
	return bytes.Count(buf[:runtime.Stack(buf, true)], []byte("worker.(*slot).work("))
}
