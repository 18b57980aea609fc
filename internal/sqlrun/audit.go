package sqlrun

import (
	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// AuditRow is an operator's call in the audit. Texts are "" for none.
type AuditRow struct {
	ID         uuid.UUID  `db:"id"`
	Happened   int64      `db:"happened"` // by the database's clock, in microseconds
	Who        string     `db:"who"`
	Program    string     `db:"program"`
	Address    string     `db:"address"`
	Request    string     `db:"request"`
	Action     string     `db:"action"`
	Queue      string     `db:"queue"`
	Subject    string     `db:"subject"`
	Task       *uuid.UUID `db:"task"`
	TaskFilter string     `db:"task_filter"`
	Reason     string     `db:"reason"`
	OldValue   string     `db:"old_value"`
	NewValue   string     `db:"new_value"`
	Changed    int64      `db:"changed"`
}

// AuditTexts are the statements on the audit.
type AuditTexts struct {
	// AddAudit adds a row: :id :part :who :program :address :request :action :queue :subject :task :task_filter :reason
	// :old_value :new_value :changed.
	AddAudit string
	// ListAudit returns at most :limit AuditRows by id, and joins entries of several parts. ListText fills in the
	// condition.
	ListAudit string
	// OldAudit returns the ids of at most :limit rows up to the time :until, the oldest first, and DropAudit removes
	// the rows of :id, with all their parts.
	OldAudit  string
	DropAudit dialect.Batch
	// CountAudit counts the entries, and CountArchive the rows of the archive, up to :limit, as a TasksRow.
	CountAudit, CountArchive string
}

// TasksRow is a number of rows.
type TasksRow struct {
	Tasks int64 `db:"tasks"`
}

// auditTexts returns the statements. t fills in names.
func auditTexts(st dialect.Statements, t func(string) string) AuditTexts {
	return AuditTexts{
		AddAudit: t(`INSERT INTO {audit} (id, part, happened, who, program, address, request, action, queue, subject, task,
       task_filter, reason, old_value, new_value, changed)
VALUES (:id, :part, {now}, :who, :program, :address, :request, :action, :queue, :subject, :task,
       :task_filter, :reason, :old_value, :new_value, :changed)`),
		ListAudit: t(`SELECT a.id, a.happened, a.who, a.program, a.address, a.request, a.action, a.queue, a.subject, a.task,
       a.task_filter, a.reason, a.old_value, a.new_value,
       (SELECT sum(p.changed) FROM {audit} p WHERE p.id = a.id) AS changed
  FROM {audit} a
 WHERE a.part = 0 AND {where}
 ORDER BY a.id{order}
 {limit}`),
		OldAudit: t(`SELECT id
  FROM {audit}
 WHERE part = 0
   AND happened <= :until
 ORDER BY id
 {limit}`),
		DropAudit: dialect.Batch{SQL: t(`DELETE FROM {audit}
 WHERE id IN ({rows})`), Row: ":id", Max: min(st.Settle.Max, 500)},
		CountAudit: t(`SELECT count(*) AS tasks
  FROM (SELECT id
          FROM {audit}
         WHERE part = 0
         {limit}) x`),
		CountArchive: t(`SELECT count(*) AS tasks
  FROM (SELECT id
          FROM {archive}
         {limit}) x`),
	}
}
