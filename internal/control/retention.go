package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/internal/store"
)

// Retained is the retention of a queue.
type Retained struct {
	Queue     string
	Retention store.Retention
	History   store.History
}

// DeclareRetention stores the retention of a queue's workers, which applies where its settings have none. The retention
// is the same, whichever program cleans the queue. Unless replace is set, it changes nothing if something is declared.
func (c *Control) DeclareRetention(ctx context.Context, r Retained, replace bool) error {
	own := Settings{History: string(r.History)}
	own.SetRetention(r.Retention)
	value, err := json.Marshal(own)
	if err == nil {
		err = c.store.UpdateKV(ctx, namespaceRetention, r.Queue, func(old store.Record, exists bool) (
			string, time.Duration, error,
		) {
			if exists && (!replace || old.Value == string(value)) {
				return "", 0, errUnchanged
			}
			return string(value), 0, nil
		})
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return c.wrap("declare retention", r.Queue, err)
}

// Retentions returns the retention of each queue with settings or workers, at most 10,000 of each: its settings, and
// where these have none, the last declaration of its workers. A queue whose records cannot be read is left out and
// named in the error.
func (c *Control) Retentions(ctx context.Context) (out []Retained, err error) {
	declared, err := c.store.ListKV(ctx, namespaceRetention)
	if err != nil {
		return nil, c.wrap("retentions", "", err)
	}
	settings, err := c.store.ListKV(ctx, namespaceSettings)
	if err != nil {
		return nil, c.wrap("retentions", "", err)
	}
	all, unreadable := map[string]Settings{}, map[string]bool{}
	for _, r := range append(settings, declared...) {
		s, failed := parseSettings(r)
		if failed != nil {
			unreadable[r.Name] = true
			err = errors.Join(err, fmt.Errorf("queue %q: %w", r.Name, failed))
			continue
		}
		set := all[r.Name] // settings come first
		set.SetRetention(set.Retention().Or(s.Retention()))
		set.History = cmp.Or(set.History, s.History)
		all[r.Name] = set
	}
	for name, s := range all {
		if !unreadable[name] {
			out = append(out, Retained{name, s.Retention(), store.History(s.History)})
		}
	}
	return out, c.wrap("retentions", "", err)
}
