package dbq

import "github.com/dbq-go/dbq/internal/control"

// Command is an operator's instruction to one worker. admin.Admin.CommandWorker sends it, and a worker.Observation
// reports that the worker has executed it.
type Command string

// The commands.
const (
	CommandPause  Command = control.CommandPause  // take no more tasks
	CommandResume Command = control.CommandResume // take tasks again
	CommandStop   Command = control.CommandStop   // finish the running tasks and stop
)
