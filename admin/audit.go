package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Origin describes who makes the calls of a context, why, and from where. Each field has up to 200 characters, and
// Reason up to MaxReason.
type Origin struct {
	By      string // the operator, unless the call has By
	Reason  string // why, unless the call has Reason
	Program string // such as "cli" or "api"; "" is "library"
	Address string // the caller's network address
	Request string // the id of the request, which the logs of a server have, too
}

// WithOrigin returns a context with an origin, which the audit records for operators' calls of this package and of
// packages schedule, workflow and auth.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return store.WithOrigin(ctx, store.Origin(o))
}

// AuditEntry records an operator's call that changed something. It is written in the transaction of the change. A call
// with several transactions, such as OperateMany, has one entry. If the call was interrupted, Changed counts the
// committed changes.
type AuditEntry struct {
	ID      uuid.UUID `json:"id"` // ids are ordered by time
	At      time.Time `json:"at"` // by the database's clock
	By      string    `json:"by"`
	Program string    `json:"program"`
	Address string    `json:"address,omitempty"`
	Request string    `json:"request,omitempty"`
	// Action is an operator's event such as "reenqueue", or a verb and its object, such as "pause queue".
	Action  string `json:"action"`
	Queue   string `json:"queue,omitempty"`
	Subject string `json:"subject,omitempty"` // the name of the schedule or worker, or the id of the token
	// TaskID is set if the call was for one task. Filter is the Filter of OperateMany as JSON.
	TaskID uuid.UUID       `json:"task_id,omitzero"`
	Filter json.RawMessage `json:"filter,omitempty"`
	Reason string          `json:"reason,omitempty"`
	// Before and After are the state of the one task, or the setting, as JSON. They have no payloads and no secrets.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Changed counts the tasks that the call has changed, or is 1 for a setting. For Clean it also counts attempts.
	Changed int64 `json:"changed"`
}

// AuditFilter selects entries of the audit. The zero value selects all; each field narrows it.
type AuditFilter struct {
	Queue  string
	Action string
	By     string
	TaskID uuid.UUID // only calls for this task alone
	Since  time.Time // only entries from this time on, by the database's clock
	Until  time.Time // only entries before this time
	// Before selects only entries with a lower id, and After those with a higher one.
	Before, After uuid.UUID
	OldestFirst   bool
	Limit         int // 1 to dbq.MaxCheckout; zero is 100
}

// From returns the filter of the entries that follow an id in the order of the list.
func (f AuditFilter) From(id uuid.UUID) AuditFilter {
	return AuditFilter(store.AuditFilter(f).From(id))
}

// AuditPage is a part of the audit.
type AuditPage struct {
	Entries []AuditEntry
	// More reports whether there may be more. AuditFilter.From(Next) selects the next page.
	More bool
	Next uuid.UUID
	// Stopped means that the page ended because it had looked at enough entries, up to one that is as old as Upto.
	Stopped bool
	Upto    time.Time
}

// Audit reads a page of the audit, the newest entries first. Its cost does not grow with the audit. A page can have
// fewer entries than f.Limit, or none, although there are more: it looks at about 2,000 entries. It does not look at
// entries whose id is more than a day before f.Since or after f.Until. Ids begin with the time, by the clock of the
// program.
func (a *Admin) Audit(ctx context.Context, f AuditFilter) (AuditPage, error) {
	f.Limit = cmp.Or(f.Limit, defaultPage)
	err := bounds.Count(f.Limit, dbq.MaxCheckout)
	for _, text := range []struct{ text, what string }{{f.Queue, "queue"}, {f.Action, "action"}, {f.By, "operator"}} {
		err = cmp.Or(err, bounds.Text(text.text, 0, dbq.MaxReference, dbq.ErrFilter, text.what))
	}
	var found store.AuditPage
	if err == nil {
		found, err = a.store.ListAudit(ctx, store.AuditFilter(f))
	}
	if err != nil {
		return AuditPage{}, a.wrap("audit", f.Queue, err)
	}
	p := AuditPage{Entries: entriesOf(found.Rows), More: found.More, Next: found.Next, Stopped: found.Stopped}
	if p.Stopped {
		p.Upto = store.TimeOf(p.Next).UTC()
	}
	return p, nil
}

func entriesOf(rows []sqlrun.AuditRow) []AuditEntry {
	out := make([]AuditEntry, len(rows))
	for i, r := range rows {
		out[i] = AuditEntry{ID: r.ID, At: time.UnixMicro(r.Happened).UTC(), By: r.Who, Program: r.Program,
			Address: r.Address, Request: r.Request, Action: r.Action, Queue: r.Queue, Subject: r.Subject,
			Filter: rawJSON(r.TaskFilter), Reason: r.Reason, Before: rawJSON(r.OldValue), After: rawJSON(r.NewValue),
			Changed: r.Changed}
		if r.Task != nil {
			out[i].TaskID = *r.Task
		}
	}
	return out
}

// rawJSON returns text as JSON: text that is not JSON becomes a JSON string.
func rawJSON(text string) json.RawMessage {
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	b, _ := json.Marshal(text)
	return b
}

// CleanAudit removes the entries that are at least as old as keep, and returns how many. dbq never removes entries on
// its own. The removal is recorded, too.
func (a *Admin) CleanAudit(ctx context.Context, keep time.Duration, opts ...Option) (removed int, err error) {
	if keep <= 0 || keep > bounds.MaxDelay {
		return 0, a.wrap("clean audit", "", fmt.Errorf("%w: keep is %v; it must be more than 0 and at most %v",
			dbq.ErrOption, keep, bounds.MaxDelay))
	}
	ctx, _, err = a.audited(ctx, opts, store.Audit{Action: "clean audit"})
	if err == nil {
		removed, err = a.store.CleanAudit(ctx, keep)
	}
	return removed, a.wrap("clean audit", "", err)
}

// audited returns a context in which the next change adds an entry to the audit, with the options of the call.
func (a *Admin) audited(ctx context.Context, opts []Option, entry store.Audit) (context.Context, options, error) {
	o, err := a.options(ctx, opts)
	if err == nil {
		err = o.resultFor(entry.Action)
	}
	if err != nil {
		return ctx, o, err
	}
	entry.By, entry.Reason = o.by, o.reason
	out, err := store.Audited(ctx, o.by, entry)
	if err != nil {
		return ctx, o, err
	}
	return out, o, nil
}

// filterJSON returns the fields of a filter that are set, as the audit keeps them and the HTTP API has them, and how
// many of the tasks the caller has chosen, if it did.
func filterJSON(f Filter, chosen int) string {
	b, _ := json.Marshal(struct { // it has only texts and numbers
		Queue         string           `json:"queue,omitempty"`
		States        []dbq.State      `json:"states,omitempty"`
		Kind          string           `json:"kind,omitempty"`
		Key           string           `json:"key,omitempty"`
		Reference     string           `json:"reference,omitempty"`
		Workflow      uuid.UUID        `json:"workflow,omitzero"`
		Holder        string           `json:"holder,omitempty"`
		ParkedOnly    bool             `json:"parked,omitempty"`
		CancelledOnly bool             `json:"cancelled,omitempty"`
		NotCancelled  bool             `json:"not_cancelled,omitempty"`
		InStateFor    duration.Seconds `json:"in_state_for_seconds,omitempty"`
		EnteredWithin duration.Seconds `json:"entered_within_seconds,omitempty"`
		EnteredSince  time.Time        `json:"entered_since,omitzero"`
		After         uuid.UUID        `json:"after,omitzero"`
		Before        uuid.UUID        `json:"before,omitzero"`
		Limit         int              `json:"limit"`
		Chosen        int              `json:"chosen,omitempty"` // tasks among them, by another criterion
	}{f.Queue, f.States, f.Kind, f.Key, f.Reference, f.Workflow, f.Holder, f.ParkedOnly, f.CancelledOnly, f.NotCancelled,
		duration.Seconds(f.InStateFor), duration.Seconds(f.EnteredWithin), f.EnteredSince, f.After, f.Before,
		f.Limit, chosen})
	return string(b)
}
