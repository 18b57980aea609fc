package dbq

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Filter selects tasks for List and the operators' bulk calls. The zero value selects all; each field narrows it.
type Filter struct {
	Queue     string  // "" is every queue
	States    []State // empty is every state
	Kind      string  // "" is every kind
	Reference string  // "" is every reference; with Queue it is at most one task
	// ParkedOnly leaves out what is retried by itself: only tasks without a due time.
	ParkedOnly bool
	// OlderThan takes only tasks that came into their state at least this long ago, by the database's clock.
	OlderThan time.Duration
	// After continues a listing behind the last id of the page before; tasks are ordered by id, which is by creation.
	After uuid.UUID
	// Before takes only tasks with a lower id.
	Before uuid.UUID
	// NewestFirst lists by descending ids. The next page then is Before the last id of this one. The bulk calls refuse it.
	NewestFirst bool
	// Limit bounds the tasks of one call: 1 to MaxBulk. 0 is 100 for List; the bulk calls want it said.
	Limit int
}

const defaultPage = 100

// where writes the filter as a condition over plain columns, states as literals, and its arguments. only narrows it to the
// states an event starts from.
func (f Filter) where(st dialect.Statements, only *state.Transition) (string, dialect.Args, error) {
	if f.Queue != "" {
		if err := checkQueueName(f.Queue); err != nil {
			return "", nil, err
		}
	}
	if err := checkText(f.Kind, 0, MaxKind, ErrKind, "kind"); err != nil {
		return "", nil, err
	}
	if err := checkText(f.Reference, 0, MaxReference, ErrReference, "reference"); err != nil {
		return "", nil, err
	}
	if f.OlderThan < 0 {
		return "", nil, fmt.Errorf("%w: older than %v", ErrFilter, f.OlderThan)
	}
	for _, s := range f.States {
		if !slices.Contains(state.All(), s) {
			return "", nil, fmt.Errorf("%w: state %v", ErrFilter, s)
		}
	}
	conds := []string{"1 = 1"}
	args := dialect.Args{"limit": f.Limit}
	add := func(cond, name string, value any) {
		conds = append(conds, cond)
		if name != "" {
			args[name] = value
		}
	}
	if f.Queue != "" {
		add("queue = :queue", "queue", f.Queue)
	}
	if f.Reference != "" {
		add("reference = :reference", "reference", f.Reference)
	}
	if f.Kind != "" {
		add("kind = :kind", "kind", f.Kind)
	}
	if f.ParkedOnly {
		add("due IS NULL AND state = "+state.Literals(StateError), "", nil)
	}
	if f.OlderThan > 0 {
		add("updated <= "+st.Now+" - :age", "age", f.OlderThan.Microseconds())
	}
	if f.After != uuid.Nil {
		add("id > :after", "after", f.After)
	}
	if f.Before != uuid.Nil {
		add("id < :before", "before", f.Before)
	}
	if len(f.States) > 0 {
		add(state.Condition(f.States...), "", nil)
		if more := st.InState[f.States[0]]; more != "" && len(f.States) == 1 {
			add(more, "", nil)
		}
	}
	if only != nil {
		add(state.Guard(*only, "due"), "", nil)
	}
	return strings.Join(conds, " AND "), args, nil
}

// Get reads one task with its payload. No such task is ErrNotFound.
func (c *Client) Get(ctx context.Context, id uuid.UUID) (Task, error) {
	var rows []dialect.Row
	err := c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = c.s.Query(ctx, conn, c.s.Statements.Get, dialect.Args{"id": id})
		return err
	})
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Task{}, c.wrap("get", "", id, err)
	}
	return taskOf(rows[0]), nil
}

// List reads tasks without their payloads, in the order of their ids. For the next page set Filter.After to the last id, or with
// Filter.NewestFirst Filter.Before.
func (c *Client) List(ctx context.Context, f Filter) ([]Task, error) {
	if f.Limit == 0 {
		f.Limit = defaultPage
	}
	rows, err := c.find(ctx, c.s.Statements.List, f, nil)
	if err != nil {
		return nil, c.wrap("list", f.Queue, uuid.Nil, err)
	}
	ts := make([]Task, len(rows))
	for i, r := range rows {
		ts[i] = taskOf(r)
	}
	return ts, nil
}

func (c *Client) find(ctx context.Context, text string, f Filter, only *state.Transition) ([]dialect.Row, error) {
	if err := checkCount(f.Limit, MaxBulk); err != nil {
		return nil, err
	}
	if f.NewestFirst && !strings.Contains(text, "{order}") {
		return nil, fmt.Errorf("%w: the newest first is for List alone", ErrFilter)
	}
	where, args, err := f.where(c.s.Statements, only)
	if err != nil {
		return nil, err
	}
	var rows []dialect.Row
	err = c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = c.s.Query(ctx, conn, dialect.ListText(text, where, f.NewestFirst), args)
		return err
	})
	return rows, err
}
