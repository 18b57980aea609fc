package worker

import (
	"bytes"
	"runtime"
	"time"

	"github.com/dbq-go/dbq/internal/maintenance"
)

func init() {
	maintenance.CleanEvery = 100 * time.Millisecond
}

// Executors is how many goroutines wait for tasks or handle one, of all workers.
func Executors() int {
	buf := make([]byte, maxStacks)
	return bytes.Count(buf[:runtime.Stack(buf, true)], []byte("worker.(*executor).run("))
}
