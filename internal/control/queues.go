package control

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
)

// Queue is a queue that is paused, or has settings or limits.
type Queue struct {
	Name     string
	Settings Settings
	Limits   store.QueueLimits
	Paused   bool
	// Since, Reason and By describe the pause.
	Since  time.Time
	Reason string
	By     string
}

// pause is the value of a pause's record.
type pause struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by"`
}

// PauseQueue stops the queue from handing out tasks: every checkout of any client that starts after PauseQueue has
// returned finds none. A second pause replaces the operator and the reason of the first.
func (c *Control) PauseQueue(ctx context.Context, queue, by, reason string) error {
	err := bounds.QueueName(queue)
	if err == nil {
		var value []byte
		if value, err = json.Marshal(pause{Reason: reason, By: by}); err == nil {
			err = c.store.PutKV(ctx, namespacePause, queue, string(value), 0)
		}
	}
	if err == nil {
		c.Logger.Info("dbq: queue paused", "queue", queue, "by", by, "reason", reason)
	}
	return c.wrap("pause", queue, err)
}

// ResumeQueue ends a pause and wakes the queue's workers. Resuming a queue that is not paused is not an error.
func (c *Control) ResumeQueue(ctx context.Context, queue, by, reason string) error {
	err := bounds.QueueName(queue)
	if err == nil {
		err = c.store.DeleteKV(ctx, namespacePause, queue)
	}
	if err == nil {
		c.Waker.WakeTasks(queue, bounds.MaxBulk) // however many are due
		c.Logger.Info("dbq: queue resumed", "queue", queue, "by", by, "reason", reason)
	}
	return c.wrap("resume", queue, err)
}

// Queue returns the pause, the settings and the limits of one queue.
func (c *Control) Queue(ctx context.Context, name string) (q Queue, err error) {
	q.Name = name
	if q.Settings, err = c.Settings(ctx, name); err != nil {
		return q, err
	}
	r, paused, err := c.store.GetKV(ctx, namespacePause, name)
	if paused {
		q.pausedBy(r)
	}
	if err == nil {
		q.Limits, err = c.store.Limits(ctx, name)
	}
	return q, c.wrap("queue", name, err)
}

// pausedBy sets the pause that a record describes.
func (q *Queue) pausedBy(r store.Record) {
	var p pause
	_ = json.Unmarshal([]byte(r.Value), &p) // the record pauses the queue, whatever its value
	q.Paused, q.Since, q.Reason, q.By = true, time.UnixMicro(r.Updated).UTC(), p.Reason, p.By
}

// Queues returns the queues that are paused, or have settings or limits, ordered by name.
func (c *Control) Queues(ctx context.Context) ([]Queue, error) {
	settings, err := c.store.ListKV(ctx, namespaceSettings)
	if err != nil {
		return nil, c.wrap("queues", "", err)
	}
	pauses, err := c.store.ListKV(ctx, namespacePause)
	if err != nil {
		return nil, c.wrap("queues", "", err)
	}
	byName := map[string]Queue{}
	for _, r := range settings {
		s, err := parseSettings(r)
		if err != nil {
			return nil, c.wrap("queues", r.Name, err)
		}
		byName[r.Name] = Queue{Name: r.Name, Settings: s}
	}
	for _, r := range pauses {
		q := byName[r.Name]
		q.Name = r.Name
		q.pausedBy(r)
		byName[r.Name] = q
	}
	limited, err := c.store.ListLimits(ctx)
	if err != nil {
		return nil, c.wrap("queues", "", err)
	}
	for name, l := range limited {
		q := byName[name]
		q.Name, q.Limits = name, l
		byName[name] = q
	}
	out := make([]Queue, 0, len(byName))
	for _, q := range byName {
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
