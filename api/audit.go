package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/google/uuid"
)

// AuditEntry records an operator's call that changed something; see admin.AuditEntry.
type AuditEntry struct {
	ID      string          `json:"id" format:"uuid"`
	At      time.Time       `json:"at"`
	By      string          `json:"by"`
	Program string          `json:"program"`
	Address string          `json:"address,omitempty"`
	Request string          `json:"request,omitempty"`
	Action  string          `json:"action"`
	Queue   string          `json:"queue,omitempty"`
	Subject string          `json:"subject,omitempty"`
	Task    string          `json:"task,omitempty" format:"uuid"`
	Filter  json.RawMessage `json:"filter,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
	Changed int64           `json:"changed"`
}

func auditEntryOf(e admin.AuditEntry) AuditEntry {
	out := AuditEntry{
		ID: e.ID.String(), At: e.At, By: e.By, Program: e.Program, Address: e.Address, Request: e.Request,
		Action: e.Action, Queue: e.Queue, Subject: e.Subject, Filter: e.Filter, Reason: e.Reason, Before: e.Before,
		After: e.After, Changed: e.Changed,
	}
	if e.Task != uuid.Nil {
		out.Task = e.Task.String()
	}
	return out
}

// listAudit is a request for a page of the audit.
type listAudit struct {
	Database string    `path:"database"`
	Queue    string    `query:"queue"`
	Action   string    `query:"action"`
	By       string    `query:"by"`
	Task     string    `query:"task" format:"uuid"`
	Since    time.Time `query:"since"`
	Until    time.Time `query:"until"`
	Order    string    `query:"order" enum:"newest,oldest" default:"newest"`
	After    string    `query:"after" format:"uuid"`
	Limit    int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// listedAudit is its response.
type listedAudit struct {
	Body struct {
		Entries []AuditEntry `json:"entries" nullable:"false"`
		Next    string       `json:"next,omitempty"`
	}
}

func (a *API) listAudit(ctx context.Context, in *listAudit) (*listedAudit, error) {
	d, p, err := a.open(ctx, auth.Administer, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	f := admin.AuditFilter{
		Queue: in.Queue, Action: in.Action, By: in.By, Since: in.Since, Until: in.Until,
		OldestFirst: in.Order == "oldest", Limit: in.Limit,
	}
	if f.Task, err = parseID("query.task", in.Task); err != nil {
		return nil, err
	}
	after, err := parseID("query.after", in.After)
	if err != nil {
		return nil, err
	}
	if f.OldestFirst {
		f.After = after
	} else {
		f.Before = after
	}
	entries, err := d.admin.Audit(ctx, f)
	if err != nil {
		return nil, err
	}
	var out listedAudit
	out.Body.Entries = []AuditEntry{}
	for _, e := range d.seenBy(p).Audit(entries) {
		out.Body.Entries = append(out.Body.Entries, auditEntryOf(e))
	}
	if len(entries) == in.Limit {
		out.Body.Next = entries[in.Limit-1].ID.String()
	}
	return &out, nil
}
