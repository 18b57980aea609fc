//go:build !unix

package conformance

func workerStopped(t *T) { t.Skipf("a process cannot be stopped here") }

func workerTerminated(t *T) { t.Skipf("a process cannot be told to end by a signal here") }
