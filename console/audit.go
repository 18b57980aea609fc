package console

import (
	"fmt"
	"net/http"
	"time"

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
	for _, field := range []struct {
		name string
		to   *time.Time
	}{{"since", &f.Since}, {"until", &f.Until}} {
		if text := v.form(field.name); text != "" {
			at, err := time.Parse("2006-01-02T15:04", text)
			if err != nil {
				return formError(field.name + ": write a time in UTC, such as 2026-01-31T16:30")
			}
			*field.to = at
		}
	}
	entries, err := v.db.admin.Audit(v.ctx(), f)
	if err != nil {
		return err
	}
	page := struct {
		Queue, Action, By, Task, Since, Until, Next string
		Entries                                     []admin.AuditEntry
	}{Queue: f.Queue, Action: f.Action, By: f.By, Task: v.form("task"), Since: v.form("since"), Until: v.form("until")}
	if len(entries) > pageSize {
		entries = entries[:pageSize]
		page.Next = v.path("audit", "queue", f.Queue, "action", f.Action, "by", f.By, "task", page.Task,
			"since", page.Since, "until", page.Until, "at", entries[pageSize-1].ID.String())
	}
	page.Entries = entries
	v.show(http.StatusOK, "audit", "Audit", page)
	return nil
}
