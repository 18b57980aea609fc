package worker

import "time"

func init() {
	cleanEvery = 100 * time.Millisecond
}
