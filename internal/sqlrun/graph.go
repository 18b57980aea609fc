package sqlrun

import (
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// GraphRow is a task of a graph. State, Due, Cancelled and Result are the task's own, and null if it does not exist.
type GraphRow struct {
	Task       uuid.UUID `db:"task"`
	Graph      uuid.UUID `db:"graph"`
	Name       string    `db:"name"`
	Queue      string    `db:"queue"`
	Needs      int64     `db:"needs"`      // how many tasks it waits for
	Dependents int64     `db:"dependents"` // how many tasks need it
	RunAt      *int64    `db:"run_at"`
	Delay      int64     `db:"delay"`
	State      *int64    `db:"state"`
	Due        *int64    `db:"due"`
	Cancelled  *int64    `db:"cancelled"`
	Result     []byte    `db:"result"`
	Now        int64     `db:"now"`
}

// NeedRow is an edge of a graph: Child needs Parent.
type NeedRow struct {
	Parent    uuid.UUID `db:"parent"`
	Child     uuid.UUID `db:"child"`
	OnFailure int64     `db:"on_failure"`
	Met       int64     `db:"met"` // 1 once the child does not wait for the parent
}

// GraphTexts are the statements on graphs, besides dialect.Statements.AddGraphTasks and AddGraphNeeds. Values are named
// as there.
type GraphTexts struct {
	// GraphTasks returns GraphRows by :id. GraphList returns those of :graph above :after, at most :limit, by task, and
	// GraphParents those that the task :child needs, with their results.
	GraphTasks              dialect.Batch
	GraphList, GraphParents string
	// GraphNeeds returns at most :limit NeedRows of the parents :id with a child above :above and met up to :met.
	GraphNeeds dialect.Batch
	// LockGraphTasks locks the rows of the tasks :id. CountNeeds subtracts :met from their needs.
	LockGraphTasks, CountNeeds dialect.Batch
	// MeetNeeds sets met in the rows of the parents :id with children above :above and up to :last, where on_failure is at
	// least :least.
	MeetNeeds dialect.Batch
	// NeededGraphTasks returns those of the tasks :id, as task, that an unfinished task needs.
	NeededGraphTasks dialect.Batch
	// DropGraphNeeds and DropGraphTasks remove the rows of the parents or tasks :id.
	DropGraphNeeds, DropGraphTasks dialect.Batch
	// OfGraph is a condition, not a statement: the task id belongs to :graph.
	OfGraph string
	// AddGraphChange adds a key/value record of :namespace and :name with :value, which no other record has.
	AddGraphChange string
}

// graphTexts returns the statements. t fills in names.
func graphTexts(st dialect.Statements, t func(string) string) GraphTexts {
	byID := func(text string) dialect.Batch {
		return dialect.Batch{SQL: t(text), Row: ":id", Max: min(st.Settle.Max, 500)}
	}
	const columns = `SELECT g.task, g.graph, g.name, g.queue, g.needs, g.dependents, g.run_at, g.delay, {now} AS now,
       (SELECT t.state FROM {task} t WHERE t.id = g.task) AS state,
       (SELECT t.due FROM {task} t WHERE t.id = g.task) AS due,
       (SELECT t.cancelled FROM {task} t WHERE t.id = g.task) AS cancelled`
	return GraphTexts{
		GraphTasks: byID(columns + `
  FROM {graph_task} g
 WHERE g.task IN ({rows})`),
		GraphList: t(columns + `
  FROM {graph_task} g
 WHERE g.graph = :graph
   AND g.task > :after
 ORDER BY g.task
 {limit}`),
		GraphParents: t(columns + `,
       (SELECT t.result FROM {task} t WHERE t.id = g.task) AS result
  FROM {graph_need} n, {graph_task} g
 WHERE g.task = n.parent
   AND n.child = :child
   AND n.parent > :after
 ORDER BY n.parent
 {limit}`),
		GraphNeeds: byID(`SELECT n.parent, n.child, n.on_failure, n.met
  FROM {graph_need} n
 WHERE n.parent IN ({rows})
   AND n.child > :above
   AND n.met <= :met
 ORDER BY n.child, n.parent
 {limit}`),
		LockGraphTasks: byID(`UPDATE {graph_task}
   SET needs = needs
 WHERE task IN ({rows})`),
		CountNeeds: byID(`UPDATE {graph_task}
   SET needs = needs - :met
 WHERE task IN ({rows})`),
		MeetNeeds: byID(`UPDATE {graph_need}
   SET met = 1
 WHERE parent IN ({rows})
   AND child > :above
   AND child <= :last
   AND met = 0
   AND on_failure >= :least`),
		NeededGraphTasks: byID(`SELECT g.task
  FROM {graph_task} g
 WHERE g.task IN ({rows})
   AND EXISTS (
     SELECT 1
       FROM {graph_need} n, {task} c
      WHERE c.id = n.child
        AND n.parent = g.task
        AND c.state NOT IN (2, 4))`),
		DropGraphNeeds: byID(`DELETE FROM {graph_need}
 WHERE parent IN ({rows})`),
		DropGraphTasks: byID(`DELETE FROM {graph_task}
 WHERE task IN ({rows})`),
		OfGraph: t("id IN (SELECT g.task FROM {graph_task} g WHERE g.graph = :graph)"),
		AddGraphChange: strings.TrimSpace(t(`INSERT INTO {kv} (namespace, name, version, value, updated)
SELECT :namespace, :name, {now}, :value, {now}
 {dual}`)),
	}
}
