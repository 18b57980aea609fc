package store

import (
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Filter selects tasks. The zero value selects all; each field narrows it.
type Filter struct {
	Queue         string
	States        []state.State
	Kind          string
	Key           string
	Reference     string
	Workflow      uuid.UUID // only tasks of this workflow
	Holder        string    // only tasks in PROCESSING whose lease this worker holds
	ParkedOnly    bool
	CancelledOnly bool // cancelled tasks are in POISON
	NotCancelled  bool
	InStateFor    time.Duration // how long a task must have been in its state, by the database's clock
	EnteredWithin time.Duration // it came into its state at most that long ago
	After         uuid.UUID     // only tasks with a higher id
	Before        uuid.UUID     // only tasks with a lower id
	NewestFirst   bool          // by descending ids
	Limit         int
}

// heldBy compares the worker in the column holder, after which the token of the checkout follows. Both sides are of the
// type of the column, in bytes or characters.
const heldBy = "(holder = :holder OR substr(holder, 1, length(:held_by)) = :held_by)"

// condition returns the filter as a condition over plain columns, with states as literals, and its arguments. An event
// narrows it to the tasks that the event may change. byID keeps the engine from any index but that of ids: the ids are
// a short range, and what another index would find may be most of the table.
func (f Filter) condition(st sqlrun.Texts, event *state.Transition, byID bool) (string, dialect.Args) {
	conditions, args := []string{"1 = 1"}, dialect.Args{"limit": f.Limit}
	add := func(condition string) { conditions = append(conditions, condition) }
	compare := func(set bool, condition, name string, value any) {
		if set {
			add(condition)
			args[name] = value
		}
	}
	column := func(name, none string) string {
		if byID {
			return "coalesce(" + name + ", " + none + ")"
		}
		return name
	}
	compare(f.Queue != "", column("queue", "''")+" = :queue", "queue", f.Queue)
	compare(f.Reference != "", "reference = :reference", "reference", f.Reference)
	compare(f.Kind != "", "kind = :kind", "kind", f.Kind)
	compare(f.Key != "", column("task_key", "''")+" = :task_key", "task_key", f.Key)
	compare(f.Workflow != uuid.Nil, st.OfWorkflow, "workflow", f.Workflow)
	if compare(f.Holder != "", heldBy, "held_by", f.Holder+"#"); f.Holder != "" {
		args["holder"] = f.Holder
		add(column("state", "-1") + " = " + state.Literals(state.Processing))
	}
	if f.ParkedOnly {
		add("due IS NULL AND " + column("state", "-1") + " = " + state.Literals(state.Error))
	}
	if f.CancelledOnly {
		add("cancelled = 1")
		if len(f.States) == 0 { // the states have an index
			f.States = []state.State{state.Poison}
		}
	}
	if f.NotCancelled {
		add("cancelled = 0")
	}
	compare(f.EnteredWithin > 0, "updated >= "+st.Now+" - :within", "within", f.EnteredWithin.Microseconds())
	compare(f.InStateFor > 0, "updated <= "+st.Now+" - :age", "age", f.InStateFor.Microseconds())
	compare(f.After != uuid.Nil, "id > :after", "after", f.After)
	compare(f.Before != uuid.Nil, "id < :before", "before", f.Before)
	if len(f.States) > 0 {
		if byID {
			add(column("state", "-1") + " IN (" + state.Literals(f.States...) + ")")
		} else if add(state.Condition(f.States...)); len(f.States) == 1 && st.InState[f.States[0]] != "" {
			add(st.InState[f.States[0]])
		}
	}
	if event != nil {
		add(state.Guard(*event, "due"))
	}
	return strings.Join(conditions, " AND "), args
}

// matches compares a row with what condition says, except of a workflow.
func (f Filter) matches(r *dialect.Row) bool {
	equal := func(want string, has *string) bool { return want == "" || has != nil && *has == want }
	since := r.Now - r.Updated
	return (f.Queue == "" || r.Queue == f.Queue) && (len(f.States) == 0 || slices.Contains(f.States, r.State)) &&
		(f.Kind == "" || r.Kind == f.Kind) && equal(f.Key, r.TaskKey) && equal(f.Reference, r.Reference) &&
		(f.Holder == "" || r.State == state.Processing && r.Holder != nil &&
			(*r.Holder == f.Holder || strings.HasPrefix(*r.Holder, f.Holder+"#"))) &&
		(!f.ParkedOnly || r.Due == nil && r.State == state.Error) && (!f.CancelledOnly || r.Cancelled == 1) &&
		(!f.NotCancelled || r.Cancelled == 0) &&
		(f.InStateFor == 0 || since >= f.InStateFor.Microseconds()) &&
		(f.EnteredWithin == 0 || since <= f.EnteredWithin.Microseconds())
}
