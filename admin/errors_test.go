package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

func inMemory(t *testing.T) (*dbq.Client, *admin.Admin) {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite::memory:", dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c, admin.New(c)
}

func second[T any](_ T, err error) error { return err }

func TestErrorsNameTheOperation(t *testing.T) {
	t.Parallel()
	_, ops := inMemory(t)
	same := func(*admin.QueueSettings) {}
	negative := func(s *admin.QueueSettings) { s.MaxCheckout = -1 }
	long := admin.Reason(strings.Repeat("x", admin.MaxReason+1))
	ctx := t.Context()
	for op, got := range map[string]struct{ err, want error }{
		"cancel task":               {ops.Operate(ctx, admin.Cancel, dbq.NewID(), admin.DryRun()), dbq.ErrOption},
		`pause of queue "dry"`:      {ops.PauseQueue(ctx, "dry", admin.DryRun()), dbq.ErrOption},
		`resume of queue "dry"`:     {ops.ResumeQueue(ctx, "dry", admin.DryRun()), dbq.ErrOption},
		"reenqueue task":            {ops.Operate(ctx, admin.Reenqueue, dbq.NewID()), dbq.ErrNotFound},
		"purge":                     {second(ops.OperateMany(ctx, admin.Purge, admin.Filter{})), dbq.ErrCount},
		"list":                      {second(ops.List(ctx, admin.Filter{InStateFor: -1})), dbq.ErrFilter},
		"archived":                  {second(ops.Archived(ctx, admin.Filter{NewestFirst: true})), dbq.ErrFilter},
		"stats":                     {second(ops.Stats(ctx, admin.CountUpTo(0))), dbq.ErrCount},
		`stats of queue "x"`:        {second(ops.StatsOf(ctx, "x", admin.CountUpTo(0))), dbq.ErrCount},
		"clean":                     {second(ops.Clean(ctx, "", dbq.KeepForever())), dbq.ErrQueueName},
		"settings":                  {second(ops.QueueSettings(ctx, "")), dbq.ErrQueueName},
		"configure":                 {ops.ConfigureQueue(ctx, "", same), dbq.ErrQueueName},
		`configure of queue "mail"`: {ops.ConfigureQueue(ctx, "mail", negative), dbq.ErrOption},
		`pause of queue "mail"`:     {ops.PauseQueue(ctx, "mail", long), dbq.ErrOption},
		`resume of queue "mail"`:    {ops.ResumeQueue(ctx, "mail", admin.By("")), dbq.ErrOption},
		"command":                   {ops.CommandWorker(ctx, "nobody", dbq.CommandStop), dbq.ErrNotFound},
		`clean of queue "mail"`:     {second(ops.Clean(ctx, "mail", dbq.Retention{Poison: -1})), dbq.ErrOption},
	} {
		if !errors.Is(got.err, got.want) || !strings.HasPrefix(got.err.Error(), "dbq: "+op) {
			t.Errorf("%s: got %v, want %v", op, got.err, got.want)
		}
	}
}

func TestClosedClientRefusesEachCall(t *testing.T) {
	t.Parallel()
	c, ops := inMemory(t)
	ctx, id := t.Context(), dbq.NewID()
	check.OK(t, c.Close())
	for call, err := range map[string]error{
		"list":       second(ops.List(ctx, admin.Filter{})),
		"archived":   second(ops.Archived(ctx, admin.Filter{})),
		"attempts":   second(ops.Attempts(ctx, id)),
		"stats":      second(ops.Stats(ctx)),
		"queues":     second(ops.Queues(ctx)),
		"workers":    second(ops.Workers(ctx)),
		"settings":   second(ops.QueueSettings(ctx, "q")),
		"configure":  ops.ConfigureQueue(ctx, "q", func(*admin.QueueSettings) {}),
		"pause":      ops.PauseQueue(ctx, "q"),
		"resume":     ops.ResumeQueue(ctx, "q"),
		"command":    ops.CommandWorker(ctx, "w", dbq.CommandStop),
		"clean":      second(ops.Clean(ctx, "q", dbq.Retention{Completed: 1})),
		"purge":      ops.Operate(ctx, admin.Purge, id),
		"purge many": second(ops.OperateMany(ctx, admin.Purge, admin.Filter{Limit: 1})),
	} {
		if !errors.Is(err, dbq.ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", call, err)
		}
	}
}

func TestEventsAreThoseOfOperators(t *testing.T) {
	t.Parallel()
	named := map[state.Event]bool{admin.Reenqueue: true, admin.Reject: true, admin.Revoke: true, admin.Cancel: true,
		admin.Finish: true, admin.Quarantine: true, admin.Restore: true, admin.Purge: true}
	for _, tr := range state.ByOperator() {
		if !named[tr.Event] {
			t.Errorf("the operators' event %q has no name here", tr.Event)
		}
		delete(named, tr.Event)
	}
	if len(named) > 0 {
		t.Errorf("%v are no operators' events", named)
	}
}

func TestFiltersAreChecked(t *testing.T) {
	t.Parallel()
	_, ops := inMemory(t)
	for want, filters := range map[error][]admin.Filter{
		dbq.ErrCount: {{Limit: -1}, {Limit: dbq.MaxBulk + 1}},
		dbq.ErrFilter: {{Limit: 1, InStateFor: -1}, {Limit: 1, States: []dbq.State{9}},
			{Limit: 1, States: []dbq.State{state.None}}},
		dbq.ErrQueueName: {{Limit: 1, Queue: "a\x00"}},
		dbq.ErrInvalid: {{Limit: 1, Kind: "a\x00"}, {Limit: 1, Reference: "a\x00"}, {Limit: 1, Kind: "\xff"},
			{Limit: 1, EnteredWithin: -1}, {Limit: 1, CancelledOnly: true, NotCancelled: true}},
	} {
		for _, f := range filters {
			_, err := ops.List(t.Context(), f)
			_, many := ops.OperateMany(t.Context(), admin.Reject, f)
			if !errors.Is(err, want) || !errors.Is(many, want) || !errors.Is(err, dbq.ErrInvalid) {
				t.Errorf("%+v: list got %v, reject got %v, want %v", f, err, many, want)
			}
		}
	}
}

func TestReasonsAreChecked(t *testing.T) {
	t.Parallel()
	_, ops := inMemory(t)
	for what, option := range map[string]admin.Option{
		"a reason that is too long":  admin.Reason(strings.Repeat("é", admin.MaxReason+1)),
		"a reason that is not UTF-8": admin.Reason("\xff"),
		"no name":                    admin.By(""),
		"a name with a line break":   admin.By("a\nb"),
		"a name that is too long":    admin.By(strings.Repeat("a", dbq.MaxReference+1)),
		"a result of a purge":        admin.Result([]byte("x")),
	} {
		many := second(ops.OperateMany(t.Context(), admin.Purge, admin.Filter{Limit: 1}, option))
		if err := ops.Operate(t.Context(), admin.Purge, dbq.NewID(), option); !errors.Is(err, dbq.ErrInvalid) ||
			!errors.Is(many, dbq.ErrInvalid) {
			t.Errorf("%s: got %v, by filter %v, want ErrInvalid", what, err, many)
		}
	}
}
