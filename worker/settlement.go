package worker

import "github.com/dbq-go/dbq"

// settlement describes how to end the attempt of a task.
type settlement struct {
	leased *leased
	how    dbq.Outcome
	err    error // the handler's error
	again  bool  // an earlier call, or the handler, may have settled the task
	alone  bool  // it was put aside, since it alone made a request fail
}
