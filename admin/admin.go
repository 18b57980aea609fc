// Package admin is for operators: people and programs that look after queues while workers work on them.
//
//	ops := admin.New(client)
//	tasks, err := ops.List(ctx, admin.Filter{Queue: "mail", States: []dbq.State{dbq.StatePoison}})
//	err = ops.Operate(ctx, admin.Reenqueue, tasks[0].ID, admin.Reason("the mail server is back"))
//
// Tasks: List, Archived and Attempts read them and their history, Operate and OperateMany change their states, Stats
// counts them, and Clean removes those that ended long ago. Queues: PauseQueue, ResumeQueue and ConfigureQueue, which
// Queues lists. Workers: Workers lists them, and CommandWorker pauses, resumes or stops one.
//
// Its errors are those of package dbq.
package admin

import (
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Admin makes the operators' calls on a client's tables. It is safe for concurrent use, and needs no Close: it ends
// with its client.
type Admin struct {
	client *dbq.Client
	core   *core.Core
	store  *store.Store
}

// New returns the operators' calls of a client. It costs nothing.
func New(c *dbq.Client) *Admin {
	parts := access.Of(c)
	return &Admin{client: c, core: parts, store: parts.Store}
}

// MaxReason is the most characters of a Reason.
const MaxReason = 1000

// Option says more about an operator's call, for other people to read. The last one of a kind counts.
type Option func(*note)

// note returns the reason and the author that the options give.
type note struct{ by, reason string }

// By names the operator in 1 to dbq.MaxReference characters. The default is the client's name; see dbq.WithName.
func By(operator string) Option { return func(n *note) { n.by = operator } }

// Reason says why, in up to MaxReason characters.
func Reason(text string) Option { return func(n *note) { n.reason = text } }

func (a *Admin) note(opts []Option) (note, error) {
	n := note{by: a.client.Info().Name}
	for _, opt := range opts {
		opt(&n)
	}
	err := limits.Text(n.by, 1, dbq.MaxReference, dbq.ErrOption, "operator's name")
	if err == nil {
		err = limits.Text(n.reason, 0, MaxReason, dbq.ErrOption, "reason")
	}
	return n, err
}

// wrap makes a *dbq.Error of an error.
func (a *Admin) wrap(op, queue string, err error) error { return a.core.Wrap(op, queue, uuid.Nil, err) }
