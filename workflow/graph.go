package workflow

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Node is a task of a workflow as it is now.
type Node struct {
	Task  uuid.UUID `json:"task"`
	Name  string    `json:"name"`
	Queue string    `json:"queue"`
	// State is the task's state, or state.None if the task was completed by its removal.
	State     dbq.State `json:"state"`
	Cancelled bool      `json:"cancelled,omitempty"`
	// WaitsFor is how many tasks it still waits for.
	WaitsFor int `json:"waits_for,omitempty"`
	// Result is the result of a completion, or the text of the last error. Only Needs sets it.
	Result []byte `json:"result,omitempty"`
}

// Edge says that Child needs Parent.
type Edge struct {
	Parent    uuid.UUID `json:"parent"`
	Child     uuid.UUID `json:"child"`
	OnFailure OnFailure `json:"on_failure"`
	Met       bool      `json:"met"` // Child no longer waits for Parent
}

// Graph is a workflow as it is now. Nodes are in the order of their ids, in which a task comes after those that it
// needs. Tasks that were removed are missing.
type Graph struct {
	ID    uuid.UUID `json:"id"`
	Nodes []Node    `json:"nodes"`
	Edges []Edge    `json:"edges"`
	// Cut says that there are more nodes or edges than were asked for.
	Cut bool `json:"cut,omitempty"`
}

// Limits of Get and page sizes.
const (
	maxEdges = 10 * pageSize
	pageSize = 1000
)

// Get reads up to limit tasks of a workflow, and the dependencies on them. limit is 1 to MaxSteps; 0 means 1,000, and
// any other number is dbq.ErrCount. If there is no such workflow, or all of its tasks were removed, Get returns
// dbq.ErrNotFound.
func Get(ctx context.Context, c *dbq.Client, id uuid.UUID, limit int) (Graph, error) {
	parts, g := access.Of(c), Graph{ID: id}
	limit = cmp.Or(limit, pageSize)
	if err := limits.Count(limit, MaxSteps); err != nil {
		return Graph{}, parts.Wrap("workflow", "", uuid.Nil, err)
	}
	for after := uuid.Nil; len(g.Nodes) < limit; {
		n := min(pageSize, limit-len(g.Nodes))
		p, err := parts.Store.ReadGraph(ctx, id, after, n, maxEdges)
		if err != nil {
			return Graph{}, parts.Wrap("workflow", "", uuid.Nil, err)
		}
		for _, r := range p.Tasks {
			g.Nodes, after = append(g.Nodes, nodeOf(r)), r.Task
		}
		for _, r := range p.Needs {
			g.Edges = append(g.Edges, Edge{r.Parent, r.Child, OnFailure(r.OnFailure), r.Met != 0})
		}
		// The limit of edges holds for each statement of a page: a page can have more of them than that.
		g.Cut = g.Cut || len(p.Needs) >= maxEdges || len(p.Tasks) == n && len(g.Nodes) == limit
		if len(p.Tasks) < n {
			break
		}
	}
	if len(g.Nodes) == 0 {
		return Graph{}, parts.Wrap("workflow", "", uuid.Nil, fmt.Errorf("%w: no workflow has this id", dbq.ErrNotFound))
	}
	return g, nil
}

func nodeOf(r sqlrun.GraphRow) Node {
	n := Node{Task: r.Task, Name: r.Name, Queue: r.Queue, WaitsFor: int(r.Needs), Result: r.Result}
	n.Cancelled = r.Cancelled != nil && *r.Cancelled != 0
	if n.State = state.None; r.State != nil {
		n.State = dbq.State(*r.State)
	}
	if n.State != dbq.StateCreated {
		n.WaitsFor = 0
	}
	return n
}

// Of returns the workflow of a task, and the name of its step. If the task belongs to none, it returns dbq.ErrNotFound.
func Of(ctx context.Context, c *dbq.Client, task uuid.UUID) (id uuid.UUID, name string, err error) {
	parts := access.Of(c)
	err = dbq.ErrNotFound
	if store.InGraph(task) {
		var rows []sqlrun.GraphRow
		rows, err = parts.Store.ReadGraphTasks(ctx, []uuid.UUID{task})
		if err == nil && len(rows) > 0 {
			return rows[0].Graph, rows[0].Name, nil
		}
		err = cmp.Or(err, dbq.ErrNotFound)
	}
	return uuid.Nil, "", parts.Wrap("workflow", "", task, err)
}

// Needs yields the tasks that a task of a workflow needs, with their results, in the order of their ids. It reads some
// hundred at a time. A task that was completed by its removal (dbq.Deleted) is missing. Retention and Purge keep the
// others until all that need them have ended.
//
//	for n, err := range workflow.Needs(ctx, client, t.ID) {
//		if err != nil {
//			return err
//		}
//		results[n.Name] = n.Result
//	}
func Needs(ctx context.Context, c *dbq.Client, task uuid.UUID) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		const page = 200
		parts := access.Of(c)
		for after := uuid.Nil; ; {
			rows, err := parts.Store.ReadParents(ctx, task, after, page)
			if err != nil {
				yield(Node{}, parts.Wrap("workflow", "", task, err))
				return
			}
			for _, r := range rows {
				if after = r.Task; !yield(nodeOf(r), nil) {
					return
				}
			}
			if len(rows) < page {
				return
			}
		}
	}
}

// Cancel cancels all tasks of a workflow that have not ended, and returns how many. The options are those of
// admin.Admin.OperateMany.
func Cancel(ctx context.Context, c *dbq.Client, id uuid.UUID, opts ...admin.Option) (int, error) {
	return operate(ctx, c, admin.Cancel, admin.Filter{Workflow: id}, opts)
}

// Retry reenqueues all tasks of a workflow that are in POISON or parked, cancelled ones too, and returns how many. They
// run in order: a task waits again for what it still needs. A failure that was already ignored remains ignored.
func Retry(ctx context.Context, c *dbq.Client, id uuid.UUID, opts ...admin.Option) (changed int, err error) {
	changed, err = operate(ctx, c, admin.Reenqueue, admin.Filter{Workflow: id, States: []dbq.State{dbq.StatePoison}}, opts)
	if err != nil {
		return changed, err
	}
	parked, err := operate(ctx, c, admin.Reenqueue, admin.Filter{Workflow: id, ParkedOnly: true}, opts)
	return changed + parked, err
}

// operate applies an event to all tasks that a filter selects. It is one call, which begins with the last tasks when it
// cancels: no task goes on because another one was cancelled before it.
func operate(
	ctx context.Context, c *dbq.Client, event state.Event, f admin.Filter, opts []admin.Option) (int, error) {
	f.Limit = MaxSteps
	return admin.New(c).OperateMany(ctx, event, f, opts...)
}

// Resume advances the workflows of clients that have crashed before they could do so. Workers do this by themselves:
// call it only in a program that settles tasks without a worker.Worker.
func Resume(ctx context.Context, c *dbq.Client) error {
	parts := access.Of(c)
	return parts.Wrap("workflow", "", uuid.Nil, parts.ResumeGraphs(ctx, 0))
}

// Mermaid returns the graph as a Mermaid flowchart.
func (g Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	quote := strings.NewReplacer(`"`, "#quot;", "&", "&amp;", "<", "&lt;", ">", "&gt;")
	index := map[uuid.UUID]int{}
	for i, n := range g.Nodes {
		index[n.Task] = i
		fmt.Fprintf(&b, "  n%d[\"%s<br/>%s\"]\n", i, quote.Replace(n.Name), n.Status())
	}
	for _, e := range g.known(index) {
		fmt.Fprintf(&b, "  n%d %s n%d\n", index[e.Parent], [...]string{"-->", "-- wait -->", "-. ignore .->"}[e.OnFailure],
			index[e.Child])
	}
	return b.String()
}

// DOT returns the graph in the language of Graphviz.
func (g Graph) DOT() string {
	var b strings.Builder
	b.WriteString("digraph workflow {\n  node [shape=box];\n")
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	index := map[uuid.UUID]int{}
	for i, n := range g.Nodes {
		index[n.Task] = i
		fmt.Fprintf(&b, "  n%d [label=\"%s\\n%s\"];\n", i, quote.Replace(n.Name), n.Status())
	}
	for _, e := range g.known(index) {
		fmt.Fprintf(&b, "  n%d -> n%d%s;\n", index[e.Parent], index[e.Child],
			[...]string{"", ` [label="wait"]`, ` [style=dashed, label="ignore"]`}[e.OnFailure])
	}
	b.WriteString("}\n")
	return b.String()
}

// known returns the edges between nodes of the graph.
func (g Graph) known(index map[uuid.UUID]int) (out []Edge) {
	for _, e := range g.Edges {
		_, parent := index[e.Parent]
		if _, child := index[e.Child]; parent && child && e.OnFailure >= CancelStep && e.OnFailure <= IgnoreFailure {
			out = append(out, e)
		}
	}
	return out
}

// Status returns the node's state as people read it, with how many tasks it waits for.
func (n Node) Status() string {
	switch {
	case n.State == state.None:
		return "COMPLETED, removed"
	case n.Cancelled:
		return n.State.String() + ", cancelled"
	case n.WaitsFor > 0:
		return fmt.Sprintf("%v, waits for %d", n.State, n.WaitsFor)
	}
	return n.State.String()
}

// String returns cancel, wait or ignore.
func (o OnFailure) String() string {
	if o < CancelStep || o > IgnoreFailure {
		return fmt.Sprintf("OnFailure(%d)", int(o))
	}
	return [...]string{"cancel", "wait", "ignore"}[o]
}
