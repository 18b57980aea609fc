package dbq

import (
	"time"

	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// KindPoison is the kind of the tasks that a dead-letter queue gets. A queue has a dead-letter queue by its settings;
// see admin.QueueSettings. The payload is a PoisonNotice as JSON:
//
//	var Poisoned = dbq.Kind[dbq.PoisonNotice]{Name: dbq.KindPoison}
//
//	worker.Handle(mux, Poisoned, func(ctx context.Context, t dbq.Task, n dbq.PoisonNotice) error {
//		return page(ctx, n)
//	})
const KindPoison = store.KindPoison

// PoisonNotice reports that a task went to POISON: the attempts were exhausted, even by the crash of a worker, or a
// handler gave the task up. It does not contain the task's payload. The reference of its own task is TaskID, a colon
// and Fence, so each move to POISON has exactly one notice.
//
// A notice that itself goes to POISON makes no further notice.
type PoisonNotice struct {
	TaskID    uuid.UUID `json:"task_id"`
	Queue     string    `json:"queue"`
	Kind      string    `json:"kind,omitempty"`
	Reference string    `json:"reference,omitempty"`
	Attempt   int       `json:"attempt"`          // the last one
	Fence     int64     `json:"fence"`            // the task's fence in POISON
	Error     string    `json:"error,omitempty"`  // the task's result: the error of the last attempt, cut like a result
	Worker    string    `json:"worker,omitempty"` // the worker that held the last lease
	At        time.Time `json:"at"`               // by the database's clock
}

var _ = PoisonNotice(store.PoisonNotice{}) // the fields are the same
