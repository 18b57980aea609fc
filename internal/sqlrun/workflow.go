package sqlrun

import (
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// WorkflowRow is a task of a workflow. State, Due, Cancelled and Result are the task's own, and null if it does not
// exist.
type WorkflowRow struct {
	Task       uuid.UUID `db:"task"`
	Workflow   uuid.UUID `db:"workflow"`
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

// NeedRow is an edge of a workflow: Child needs Parent.
type NeedRow struct {
	Parent    uuid.UUID `db:"parent"`
	Child     uuid.UUID `db:"child"`
	OnFailure int64     `db:"on_failure"`
	Met       int64     `db:"met"` // 1 once the child does not wait for the parent
}

// WorkflowTexts are the statements on workflows, besides dialect.Statements.AddWorkflowTasks and AddWorkflowNeeds.
// Values are named as there.
type WorkflowTexts struct {
	// WorkflowTasks returns WorkflowRows by :id. WorkflowStep returns the row of :workflow with :name. WorkflowList
	// returns the rows of :workflow above :after, at most :limit, by task. WorkflowParents returns the rows that the task
	// :child needs, with their results. Workflows returns the workflows of at most :limit rows below the workflow
	// :before, the newest first.
	WorkflowTasks                                          dialect.Batch
	WorkflowStep, WorkflowList, WorkflowParents, Workflows string
	// WorkflowNeeds returns at most :limit NeedRows of the parents :id with a child above :above and met up to :met.
	WorkflowNeeds dialect.Batch
	// LockWorkflowTasks locks the rows of the tasks :id, in their order, and returns them as task. CountNeeds subtracts
	// :met from their needs.
	LockWorkflowTasks, CountNeeds dialect.Batch
	// MeetNeeds sets met in the rows of the parents :id with children above :above and up to :last, where on_failure is
	// at least :least.
	MeetNeeds dialect.Batch
	// NeededWorkflowTasks returns the tasks among :id, as task, that an unfinished task needs.
	NeededWorkflowTasks dialect.Batch
	// DropWorkflowNeeds and DropWorkflowTasks remove the rows of the parents or tasks :id.
	DropWorkflowNeeds, DropWorkflowTasks dialect.Batch
	// OfWorkflow is a condition, not a statement: the task id belongs to :workflow.
	OfWorkflow string
	// AddWorkflowChange adds a key/value record of :namespace and :name with :value, which no other record has.
	AddWorkflowChange string
}

// workflowTexts returns the statements. t fills in names.
func workflowTexts(st dialect.Statements, t func(string) string) WorkflowTexts {
	byID := func(text string) dialect.Batch {
		return dialect.Batch{SQL: t(text), Row: ":id", Max: min(st.Settle.Max, 500)}
	}
	const columns = `SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled`
	return WorkflowTexts{
		WorkflowTasks: byID(columns + `
  FROM {step} s
  LEFT JOIN {task} t ON t.id = s.task
 WHERE s.task IN ({rows})`),
		WorkflowStep: t(columns + `
  FROM {step} s
  LEFT JOIN {task} t ON t.id = s.task
 WHERE s.workflow = :workflow
   AND s.name = :name`),
		WorkflowList: t(columns + `
  FROM {step} s
  LEFT JOIN {task} t ON t.id = s.task
 WHERE s.workflow = :workflow
   AND s.task > :after
 ORDER BY s.task
 {limit}`),
		WorkflowParents: t(columns + `,
       t.result
  FROM {need} n
  JOIN {step} s ON s.task = n.parent
  LEFT JOIN {task} t ON t.id = n.parent
 WHERE n.child = :child
   AND n.parent > :after
 ORDER BY n.parent
 {limit}`),
		Workflows: t(`SELECT workflow
  FROM {step}
 WHERE workflow < :before
 ORDER BY workflow DESC
 {limit}`),
		WorkflowNeeds: byID(`SELECT n.parent, n.child, n.on_failure, n.met
  FROM {need} n
 WHERE n.parent IN ({rows})
   AND n.child > :above
   AND n.met <= :met
 ORDER BY n.child, n.parent
 {limit}`),
		LockWorkflowTasks: byID(strings.TrimRight(`SELECT task
  FROM {step}
 WHERE task IN ({rows})
 ORDER BY task
   `+st.ForUpdate, " \n")),
		CountNeeds: byID(`UPDATE {step}
   SET needs = needs - :met
 WHERE task IN ({rows})`),
		MeetNeeds: byID(`UPDATE {need}
   SET met = 1
 WHERE parent IN ({rows})
   AND child > :above
   AND child <= :last
   AND met = 0
   AND on_failure >= :least`),
		NeededWorkflowTasks: byID(`SELECT s.task
  FROM {step} s
 WHERE s.task IN ({rows})
   AND EXISTS (
     SELECT 1
       FROM {need} n
       JOIN {task} c ON c.id = n.child
      WHERE n.parent = s.task
        AND c.state <> 2
        AND c.state <> 4)`),
		DropWorkflowNeeds: byID(`DELETE FROM {need}
 WHERE parent IN ({rows})`),
		DropWorkflowTasks: byID(`DELETE FROM {step}
 WHERE task IN ({rows})`),
		OfWorkflow: t("id IN (SELECT s.task FROM {step} s WHERE s.workflow = :workflow)"),
		AddWorkflowChange: strings.TrimSpace(t(`INSERT INTO {kv} (namespace, name, version, value, updated)
SELECT :namespace, :name, {now}, :value, {now}
 {dual}`)),
	}
}
