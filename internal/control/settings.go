package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
)

// Settings are a queue's settings, which override the fields of its workers. A zero field overrides nothing. They are
// stored as the JSON that the HTTP API has, whose limits the tags are.
type Settings struct {
	Concurrency   int              `json:"concurrency,omitempty" minimum:"0"`
	MaxCheckout   int              `json:"max_checkout,omitempty" minimum:"0"`
	Poll          duration.Seconds `json:"poll_seconds,omitempty" minimum:"0"`
	Lease         duration.Seconds `json:"lease_seconds,omitempty" minimum:"0"`
	MaxAttempts   int              `json:"max_attempts,omitempty" minimum:"0"`
	History       string           `json:"history,omitempty" enum:"all,failures,none,"`
	DeadLetter    string           `json:"dead_letter,omitempty"`
	KeepCompleted duration.Seconds `json:"keep_completed_seconds,omitempty" minimum:"-1"`
	KeepPoison    duration.Seconds `json:"keep_poison_seconds,omitempty" minimum:"-1"`
	KeepCancelled duration.Seconds `json:"keep_cancelled_seconds,omitempty" minimum:"-1"`
	KeepParked    duration.Seconds `json:"keep_parked_seconds,omitempty" minimum:"-1"`
	KeepAttempts  duration.Seconds `json:"keep_attempts_seconds,omitempty" minimum:"-1"`
	Archive       bool             `json:"archive,omitempty"`
	NoStatistics  bool             `json:"no_statistics,omitempty"` // over time
}

// Retention returns the settings' retention.
func (s *Settings) Retention() store.Retention {
	return store.Retention{
		Completed: time.Duration(s.KeepCompleted), Poison: time.Duration(s.KeepPoison),
		Cancelled: time.Duration(s.KeepCancelled), Parked: time.Duration(s.KeepParked),
		Attempts: time.Duration(s.KeepAttempts), Archive: s.Archive,
	}
}

// SetRetention changes the settings' retention.
func (s *Settings) SetRetention(r store.Retention) {
	s.KeepCompleted, s.KeepPoison = duration.Seconds(r.Completed), duration.Seconds(r.Poison)
	s.KeepCancelled, s.KeepParked = duration.Seconds(r.Cancelled), duration.Seconds(r.Parked)
	s.KeepAttempts, s.Archive = duration.Seconds(r.Attempts), r.Archive
}

// Settings returns the queue's settings, or the zero value if none are set.
func (c *Control) Settings(ctx context.Context, queue string) (s Settings, err error) {
	if err = bounds.QueueName(queue); err == nil {
		r, exists, readErr := c.store.GetKV(ctx, namespaceSettings, queue)
		if err = readErr; exists {
			s, err = parseSettings(r)
		}
	}
	return s, c.wrap("settings", queue, err)
}

// WithoutStatistics returns the queues whose settings turn the statistics over time off.
func (c *Control) WithoutStatistics(ctx context.Context) (map[string]bool, error) {
	records, err := c.store.ListKV(ctx, namespaceSettings)
	out := map[string]bool{}
	for _, r := range records {
		if s, err := parseSettings(r); err == nil && s.NoStatistics {
			out[r.Name] = true
		}
	}
	return out, c.wrap("settings", "", err)
}

// Configure changes the queue's settings atomically, and wakes its workers to read them: concurrent updates to
// different fields are both applied. It can call change several times. For invalid settings it returns ErrOption,
// ErrLeaseTime, ErrMaxAttempts or ErrQueueName and changes nothing.
func (c *Control) Configure(ctx context.Context, queue string, change func(*Settings)) error {
	err := bounds.QueueName(queue)
	if err == nil {
		err = c.store.UpdateKV(ctx, namespaceSettings, queue, func(old store.Record, exists bool) (
			string, time.Duration, error,
		) {
			var s Settings
			if exists { // unreadable settings are replaced
				s, _ = parseSettings(old)
			}
			change(&s)
			if err := s.Check(queue); err != nil {
				return "", 0, err
			}
			b, err := json.Marshal(s)
			if err == nil && exists && string(b) == old.Value {
				err = errUnchanged
			}
			return string(b), 0, err
		})
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		c.Waker.WakeControl(queue)
	}
	return c.wrap("configure", queue, err)
}

// errUnchanged ends the transaction of a change that changes nothing: nothing is written, and the audit has no entry.
var errUnchanged = errors.New("nothing changes")

func parseSettings(r store.Record) (s Settings, err error) {
	if err := json.Unmarshal([]byte(r.Value), &s); err != nil {
		return Settings{}, fmt.Errorf("the settings in the database cannot be read (%w): set them again", err)
	}
	return s, nil
}

// histories are the values of History; see dbq.History.
var histories = []string{"", "all", "failures", "none"}

// Check refuses settings of a queue that are out of range.
func (s *Settings) Check(queue string) error {
	if err := cmp.Or(
		bounds.Range("concurrency", s.Concurrency, 0, bounds.MaxCheckout, errs.ErrOption),
		bounds.Range("max checkout", s.MaxCheckout, 0, bounds.MaxCheckout, errs.ErrOption),
		bounds.Range("poll", time.Duration(s.Poll), 0, bounds.MaxLease, errs.ErrOption),
		bounds.Range("max attempts", s.MaxAttempts, 0, bounds.MaxMaxAttempts, errs.ErrMaxAttempts),
	); err != nil {
		return err
	}
	switch {
	case !slices.Contains(histories, s.History):
		return fmt.Errorf("%w: the history must be all, failures or none", errs.ErrOption)
	case s.DeadLetter == queue:
		return fmt.Errorf("%w: queue %q cannot be its own dead-letter queue", errs.ErrOption, queue)
	}
	if s.DeadLetter != "" {
		if err := bounds.QueueName(s.DeadLetter); err != nil {
			return fmt.Errorf("dead-letter queue: %w", err)
		}
	}
	if s.Lease != 0 {
		if err := bounds.Lease(time.Duration(s.Lease)); err != nil {
			return err
		}
	}
	return s.Retention().Check()
}
