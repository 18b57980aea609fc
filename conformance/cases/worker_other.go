//go:build !unix

package cases

func workerStopped(t *test) { t.Skipf("a process cannot be stopped here") }

func workerTerminated(t *test) { t.Skipf("a process cannot be told to end by a signal here") }
