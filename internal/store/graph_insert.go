package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// NewGraph is a graph to insert. A task comes after those that it needs.
type NewGraph struct {
	ID    uuid.UUID
	Tasks []NewGraphTask
}

// NewGraphTask is a task of a graph. SetIDs sets the ids of all rows.
type NewGraphTask struct {
	InsertRow
	Queue     string
	Name      string
	Needs     []int // indexes of Tasks
	OnFailure int
}

// SetIDs turns the ids of the tasks, which are new, into those of tasks of a graph.
func (g *NewGraph) SetIDs() {
	needed := make([]bool, len(g.Tasks))
	for i := range g.Tasks {
		for _, parent := range g.Tasks[i].Needs {
			needed[parent] = true
		}
	}
	for i := range g.Tasks {
		g.Tasks[i].ID = graphID(g.Tasks[i].ID, needed[i])
	}
}

// InsertGraph adds the tasks of a graph in one transaction, all or none. A reference that is taken is ErrDuplicate,
// with the id of the existing task. If the answer is lost, it searches for the graph for a few hundred milliseconds,
// and returns ErrMayHaveHappened if it does not find it.
func (s *Store) InsertGraph(ctx context.Context, g *NewGraph) (duplicate uuid.UUID, err error) {
	var lost error
	err = s.repeat(ctx, func() (bool, error) {
		err := s.sql.Tx(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			duplicate, err = s.insertGraph(ctx, conn, g)
			return err
		})
		if s.sql.Class(err) != dialect.Ambiguous {
			return false, err
		}
		if !s.findGraph(ctx, g) {
			lost = err
		}
		return true, nil
	})
	if err == nil && lost != nil {
		err = maybeHappened(true, lost)
	}
	return duplicate, err
}

// InsertGraphTx is InsertGraph in the caller's transaction. It tries once. After an error, the caller rolls back.
func (s *Store) InsertGraphTx(ctx context.Context, tx sqlrun.Tx, g *NewGraph) (duplicate uuid.UUID, err error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return uuid.Nil, err
	}
	return s.insertGraph(ctx, conn, g)
}

// findGraph reports whether a graph whose insert was not answered is there.
func (s *Store) findGraph(ctx context.Context, g *NewGraph) bool {
	for _, pause := range searchPauses {
		if Sleep(ctx, pause) != nil {
			return false
		}
		p, err := s.ReadGraph(ctx, g.ID, uuid.Nil, 1, 1)
		if err != nil || len(p.Tasks) > 0 {
			return err == nil
		}
	}
	return false
}

func (s *Store) insertGraph(ctx context.Context, conn dialect.Conn, g *NewGraph) (duplicate uuid.UUID, err error) {
	queues := map[string][]InsertRow{}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		row := t.InsertRow
		if len(t.Needs) > 0 {
			row.RunAt, row.Delay = GraphWaits, 0
		}
		queues[t.Queue] = append(queues[t.Queue], row)
	}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		out, err := s.newInsertBatch(queue, queues[queue]).insert(ctx, conn)
		if err != nil {
			return uuid.Nil, err
		}
		for _, in := range out {
			if in.Duplicate {
				return in.ID, fmt.Errorf("%w: a task of the graph, in the queue %q; no task of it was added",
					errs.ErrDuplicate, queue)
			}
		}
	}
	args, n := g.taskArgs()
	if _, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddGraphTasks, args, n); err != nil {
		return uuid.Nil, err
	}
	if args, n = g.needArgs(); n > 0 {
		_, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddGraphNeeds, args, n)
	}
	return uuid.Nil, err
}

// taskArgs returns the columns of AddGraphTasks, and their number of rows.
func (g *NewGraph) taskArgs() (dialect.Args, int) {
	n := len(g.Tasks)
	id, name, queue := make(dialect.Col[uuid.UUID], n), make(dialect.Col[string], n), make(dialect.Col[string], n)
	graph := make(dialect.Col[uuid.UUID], n)
	needs, dependents := make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	at, delay := make(dialect.Col[*int64], n), make(dialect.Col[int64], n)
	for i := range g.Tasks {
		t := &g.Tasks[i]
		id[i], graph[i], name[i], queue[i], needs[i] = t.ID, g.ID, t.Name, t.Queue, int64(len(t.Needs))
		at[i], delay[i] = micros(t.RunAt), t.Delay.Microseconds()
		for _, parent := range t.Needs {
			dependents[parent]++
		}
	}
	return dialect.Args{"id": id, "graph_id": graph, "name": name, "queue_name": queue, "needs": needs,
		"dependents": dependents, "at": at, "delay": delay}, n
}

// needArgs returns the columns of AddGraphNeeds, and their number of rows.
func (g *NewGraph) needArgs() (dialect.Args, int) {
	var parents, children dialect.Col[uuid.UUID]
	var policies dialect.Col[int64]
	for i := range g.Tasks {
		for _, parent := range g.Tasks[i].Needs {
			parents = append(parents, g.Tasks[parent].ID)
			children, policies = append(children, g.Tasks[i].ID), append(policies, int64(g.Tasks[i].OnFailure))
		}
	}
	return dialect.Args{"parent": parents, "child": children, "on_failure": policies}, len(parents)
}
