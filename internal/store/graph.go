package store

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The ids of the tasks of graphs are UUIDs of version 8 in the form of version 7, with a last bit that is 1 if other
// tasks need the task. So a call knows without a query whether its tasks belong to graphs, and plain tasks cost
// nothing.
const (
	graphVersion = 0x80
	neededBit    = 0x01
)

// graphID returns the id of a task of a graph, made of a new id.
func graphID(id uuid.UUID, needed bool) uuid.UUID {
	id[6] = graphVersion | id[6]&0x0f
	id[15] &^= neededBit
	if needed {
		id[15] |= neededBit
	}
	return id
}

// InGraph reports whether a task belongs to a graph.
func InGraph(id uuid.UUID) bool { return id[6]&0xf0 == graphVersion }

// only returns the ids for which is holds.
func only(ids []uuid.UUID, is func(uuid.UUID) bool) (out []uuid.UUID) {
	for _, id := range ids {
		if is(id) {
			out = append(out, id)
		}
	}
	return out
}

// isNeeded reports whether other tasks of a graph need the task.
func isNeeded(id uuid.UUID) bool { return InGraph(id) && id[15]&neededBit != 0 }

// GraphWaits is the due time of a task that waits for others of its graph: the last one that there is. Checkouts pass
// it like any task of the future.
var GraphWaits = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// Waits reports whether a row is a task that waits for others of its graph.
func Waits(r dialect.Row) bool {
	return InGraph(r.ID) && r.State == state.Created && isGraphWait(r.Due)
}

func isGraphWait(due *int64) bool { return due != nil && *due == GraphWaits.UnixMicro() }

// What happens to a task of a graph when one that it needs goes to POISON, as stored.
const (
	OnFailureCancel = iota
	OnFailureWait
	OnFailureIgnore
)

// A change is a task whose graph has to be advanced: it has ended, or it may start. The records of changes are written
// in the transaction that changes the tasks, and removed by the one that advances their graphs. So a crash in between
// loses nothing, and the change waits for no other task of the graph.
const (
	graphNamespace = "graph"
	changeTasks    = 100 // in one record: a value has room for 125
)

// GraphChange is a record of changes.
type GraphChange struct {
	Name  string
	Tasks []uuid.UUID
}

// FollowUp is what is left to do after a call has been committed. Without it, workers find it later.
type FollowUp struct {
	Notices
	Changes []GraphChange
}

// addChanges records that the graphs of tasks have to be advanced.
func (s *Store) addChanges(ctx context.Context, conn dialect.Conn, tasks []uuid.UUID) (added []GraphChange, err error) {
	for part := range slices.Chunk(tasks, changeTasks) {
		name, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		var value strings.Builder
		for _, id := range part {
			value.WriteString(strings.ReplaceAll(id.String(), "-", ""))
		}
		_, err = s.sql.Exec(ctx, conn, s.sql.Texts.AddGraphChange,
			dialect.Args{"namespace": graphNamespace, "name": name.String(), "value": value.String()})
		if err != nil {
			return nil, err
		}
		added = append(added, GraphChange{name.String(), part})
	}
	return added, nil
}

// changeOf reads a record of changes. Text that is no id is left out.
func changeOf(r Record) GraphChange {
	c := GraphChange{Name: r.Name}
	for v := r.Value; len(v) >= 32; v = v[32:] {
		if id, err := uuid.Parse(v[:32]); err == nil {
			c.Tasks = append(c.Tasks, id)
		}
	}
	return c
}

// graphTasks reads tasks of graphs.
func (s *Store) graphTasks(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) ([]sqlrun.GraphRow, error) {
	args := dialect.Args{"id": dialect.Col[uuid.UUID](ids)}
	return sqlrun.QueryBatchAs[sqlrun.GraphRow](ctx, s.sql, conn, s.sql.Texts.GraphTasks, args, len(ids))
}

// execIDs runs a batch whose only column is :id.
func (s *Store) execIDs(ctx context.Context, conn dialect.Conn, b dialect.Batch, ids []uuid.UUID) error {
	_, err := s.sql.ExecBatch(ctx, conn, b, dialect.Args{"id": dialect.Col[uuid.UUID](ids)}, len(ids))
	return err
}

// changeGraphs adjusts graphs to tasks that an operator has moved, and returns the changes that it has recorded.
func (s *Store) changeGraphs(ctx context.Context, conn dialect.Conn, to state.State, moved []uuid.UUID) (
	[]GraphChange, error) {
	switch to {
	case state.None:
		return nil, s.leaveGraphs(ctx, conn, moved)
	case state.Created:
		return s.holdBack(ctx, conn, moved)
	case state.Poison:
		return s.addChanges(ctx, conn, only(moved, isNeeded))
	}
	return nil, nil
}

// GraphPage is a part of a graph: some of its tasks, by id, and what needs them.
type GraphPage struct {
	Tasks []sqlrun.GraphRow
	Needs []sqlrun.NeedRow
}

// ReadGraph reads up to limit tasks of a graph above after, and at most needs of what needs them.
func (s *Store) ReadGraph(ctx context.Context, graph, after uuid.UUID, limit, needs int) (p GraphPage, err error) {
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		p.Tasks, err = sqlrun.QueryAs[sqlrun.GraphRow](ctx, s.sql, conn, s.sql.Texts.GraphList,
			dialect.Args{"graph": graph, "after": after, "limit": limit})
		var parents dialect.Col[uuid.UUID]
		for i := range p.Tasks {
			if isNeeded(p.Tasks[i].Task) {
				parents = append(parents, p.Tasks[i].Task)
			}
		}
		if err != nil || len(parents) == 0 {
			return err
		}
		p.Needs, err = sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, s.sql, conn, s.sql.Texts.GraphNeeds,
			dialect.Args{"id": parents, "above": uuid.Nil, "met": 1, "limit": needs}, len(parents))
		return err
	})
	return p, err
}

// ReadGraphTasks reads tasks of graphs. Those that do not exist are left out.
func (s *Store) ReadGraphTasks(ctx context.Context, ids []uuid.UUID) (rows []sqlrun.GraphRow, err error) {
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = s.graphTasks(ctx, conn, ids)
		return err
	})
	return rows, err
}

// ReadParents reads up to limit tasks above after that a task of a graph needs, with their results, by id.
func (s *Store) ReadParents(ctx context.Context, child, after uuid.UUID, limit int) (
	rows []sqlrun.GraphRow, err error) {
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = sqlrun.QueryAs[sqlrun.GraphRow](ctx, s.sql, conn, s.sql.Texts.GraphParents,
			dialect.Args{"child": child, "after": after, "limit": limit})
		return err
	})
	return rows, err
}

// unneeded leaves out the tasks that an unfinished task of their graph needs, for its handler reads their results.
func (s *Store) unneeded(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) ([]uuid.UUID, error) {
	parents := only(ids, isNeeded)
	if len(parents) == 0 {
		return ids, nil
	}
	rows, err := sqlrun.QueryBatchAs[sqlrun.GraphRow](ctx, s.sql, conn, s.sql.Texts.NeededGraphTasks,
		dialect.Args{"id": dialect.Col[uuid.UUID](parents)}, len(parents))
	if err != nil || len(rows) == 0 {
		return ids, err
	}
	needed := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		needed[r.Task] = true
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return needed[id] }), nil
}

// leaveGraphs removes what graphs keep of tasks that are removed. A failed task that is removed is no longer needed:
// what was cancelled with it can be reenqueued, and runs.
func (s *Store) leaveGraphs(ctx context.Context, conn dialect.Conn, removed []uuid.UUID) error {
	ids := only(removed, InGraph)
	if len(ids) == 0 {
		return nil
	}
	open, err := sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, s.sql, conn, s.sql.Texts.GraphNeeds,
		dialect.Args{"id": dialect.Col[uuid.UUID](ids), "above": uuid.Nil, "met": 0, "limit": math.MaxInt32}, len(ids))
	if err != nil {
		return err
	}
	met := map[uuid.UUID]int64{}
	for _, n := range open {
		met[n.Child]++
	}
	if _, err := s.countNeeds(ctx, conn, met); err != nil {
		return err
	}
	if err := s.execIDs(ctx, conn, s.sql.Texts.DropGraphNeeds, ids); err != nil {
		return err
	}
	return s.execIDs(ctx, conn, s.sql.Texts.DropGraphTasks, ids)
}
