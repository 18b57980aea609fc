package console

import (
	"fmt"
	"net/http"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/google/uuid"
)

// auditPage lists the changes of operators, the newest first.
func (c *Console) auditPage(v *visit) error {
	f := admin.AuditFilter{
		Queue: v.named("queue"), Action: v.form("action"), By: v.named("by"), Limit: pageSize + 1,
	}
	if err := v.need(auth.Administer, f.Queue); err != nil {
		return err
	}
	for _, field := range []struct {
		name string
		to   *uuid.UUID
	}{{"task", &f.Task}, {"at", &f.Before}} {
		if text := v.form(field.name); text != "" {
			id, err := uuid.Parse(text)
			if err != nil {
				return formError(fmt.Sprintf("the %s is not a UUID", field.name))
			}
			*field.to = id
		}
	}
	entries, err := v.db.admin.Audit(v.ctx(), f)
	if err != nil {
		return err
	}
	page := struct {
		Queue, Action, By, Task, Next string
		Entries                       []admin.AuditEntry
	}{Queue: f.Queue, Action: f.Action, By: f.By, Task: v.form("task")}
	if len(entries) > pageSize {
		entries = entries[:pageSize]
		page.Next = v.path("audit", "queue", f.Queue, "action", f.Action, "by", f.By, "task", page.Task,
			"at", entries[pageSize-1].ID.String())
	}
	page.Entries = entries
	v.show(http.StatusOK, "audit", "Audit", page)
	return nil
}
