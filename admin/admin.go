// Package admin is for operators: people and programs that inspect and manage queues, tasks and workers.
//
//	ops := admin.New(client)
//	page, err := ops.List(ctx, admin.Filter{Queue: "mail", States: []dbq.State{dbq.StatePoison}})
//	err = ops.Operate(ctx, admin.Reenqueue, page.Tasks[0].ID, admin.Reason("the mail server is back"))
//
// Tasks: List, Archived and Attempts read them and their history, Operate and OperateMany change their states, Stats
// counts them, and Clean removes those whose retention has passed. Queues: PauseQueue, ResumeQueue, ConfigureQueue
// and ConfigureLimits change them, Queues lists them, Keys lists the keys of one, and Why returns why its tasks wait.
// Workers: Workers lists them, and CommandWorker pauses, resumes or stops one. Each call that changes something is
// recorded in the audit, which Audit reads.
//
// Calls return the errors of package dbq.
package admin

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Admin has the operators' calls on a client's tables. It is safe for concurrent use and needs no Close.
type Admin struct {
	client *dbq.Client
	core   *core.Core
	store  *store.Store
}

// New returns an Admin for a client. It sends nothing to the database.
func New(c *dbq.Client) *Admin {
	parts := access.Of(c)
	return &Admin{client: c, core: parts, store: parts.Store}
}

// MaxReason is the maximum number of characters in a Reason.
const MaxReason = store.MaxReason

// Option adds information for other operators to a call. If an option is given twice, the last one counts.
type Option func(*options)

// options are the values that Options set.
type options struct {
	by, reason string
	result     []byte
	dryRun     bool
}

// By sets the operator's name, in 1 to dbq.MaxReference characters. The default is the name in the context's Origin, or
// the client's name; see dbq.WithName.
func By(operator string) Option { return func(o *options) { o.by = operator } }

// Reason sets the reason for the call, in up to MaxReason characters. The default is the reason in the context's
// Origin.
func Reason(text string) Option { return func(o *options) { o.reason = text } }

// Result sets the result of the tasks that Finish completes, in up to dbq.MaxResult bytes; workflow.Result reads JSON.
// By default the result names the operator and the reason. Other calls refuse it with dbq.ErrOption.
func Result(b []byte) Option { return func(o *options) { o.result = b } }

// DryRun makes OperateMany count the tasks that it would change, and change nothing. Other calls refuse it with
// dbq.ErrOption.
func DryRun() Option { return func(o *options) { o.dryRun = true } }

// resultFor returns an error if the options have a result for an action that takes none.
func (o options) resultFor(action string) error {
	if o.result != nil && action != string(Finish) {
		return fmt.Errorf("%w: Result is for Finish only", dbq.ErrOption)
	}
	return nil
}

// options returns the options of a call that has no dry run.
func (a *Admin) options(ctx context.Context, opts []Option) (options, error) {
	o, err := a.optionsOrDryRun(ctx, opts)
	if err == nil && o.dryRun {
		err = fmt.Errorf("%w: DryRun is for OperateMany only", dbq.ErrOption)
	}
	return o, err
}

func (a *Admin) optionsOrDryRun(ctx context.Context, opts []Option) (options, error) {
	origin := store.OriginOf(ctx)
	o := options{by: cmp.Or(origin.By, a.client.Info().Name), reason: origin.Reason}
	for _, opt := range opts {
		opt(&o)
	}
	err := bounds.Text(o.by, 1, dbq.MaxReference, dbq.ErrOption, "operator's name")
	if err == nil {
		err = bounds.Text(o.reason, 0, MaxReason, dbq.ErrOption, "reason")
	}
	if err == nil {
		err = bounds.Range("the size of the result", len(o.result), 0, dbq.MaxResult, dbq.ErrOption)
	}
	return o, err
}

// wrap returns an error as a *dbq.Error.
func (a *Admin) wrap(op, queue string, err error) error { return a.core.Wrap(op, queue, uuid.Nil, err) }
