package api

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/google/uuid"
)

// listAudit is a request for a page of the audit.
type listAudit struct {
	Database string    `path:"database"`
	Queue    string    `query:"queue"`
	Action   string    `query:"action"`
	By       string    `query:"by"`
	TaskID   uuid.UUID `query:"task_id"`
	Since    time.Time `query:"since"`
	Until    time.Time `query:"until"`
	Order    string    `query:"order" enum:"newest,oldest" default:"newest"`
	After    uuid.UUID `query:"after"`
	Limit    int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// listedAudit is its response.
type listedAudit struct {
	Body struct {
		Entries []admin.AuditEntry `json:"entries" nullable:"false"`
		Next    uuid.UUID          `json:"next,omitzero"`
	}
}

func (a *API) listAudit(ctx context.Context, in *listAudit) (*listedAudit, error) {
	d, p, err := a.open(ctx, auth.Administer, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	f := admin.AuditFilter{
		Queue: in.Queue, Action: in.Action, By: in.By, TaskID: in.TaskID, Since: in.Since, Until: in.Until,
		OldestFirst: in.Order == "oldest", Limit: in.Limit,
	}
	if f.OldestFirst {
		f.After = in.After
	} else {
		f.Before = in.After
	}
	page, err := d.admin.Audit(ctx, f)
	if err != nil {
		return nil, err
	}
	var out listedAudit
	out.Body.Entries = append([]admin.AuditEntry{}, d.seenBy(p).Audit(page.Entries)...)
	out.Body.Next = page.Next
	return &out, nil
}
