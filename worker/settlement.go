package worker

import "github.com/dbq-go/dbq"

// settlement is how the attempt of a task is to end.
type settlement struct {
	leased *leased
	how    dbq.Outcome
	err    error // what the handler returned
	again  bool  // an earlier call, or the handler, may have settled it
}
