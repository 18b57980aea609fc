package worker

import "time"

func init() {
	fleetEvery, cleanEvery = 50*time.Millisecond, 100*time.Millisecond
}
