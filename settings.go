package dbq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// QueueSettings are what operators set for a queue while its workers run; all workers on the queue take them over: see OperatorBell. A
// zero field leaves each worker its own setting.
type QueueSettings struct {
	Concurrency int           // tasks that one worker works on at once
	Batch       int           // tasks in one checkout
	Poll        time.Duration // the longest pause between two looks of an idle worker
	Lease       time.Duration // MinLease to MaxLease
	MaxAttempts int           // attempts after which a failing task is POISON, when the task allows more
	History     History       // which attempts are recorded
	Retention   Retention     // what is removed when
}

// QueueInfo is what operators have set for a queue.
type QueueInfo struct {
	Queue    string
	Settings QueueSettings
	Paused   bool
	// Since, Reason and By tell about the pause.
	Since  time.Time
	Reason string
	By     string
}

// settingsText is QueueSettings as the database has them: JSON that a person can read.
type settingsText struct {
	Concurrency int      `json:"concurrency,omitempty"`
	Batch       int      `json:"batch,omitempty"`
	Poll        duration `json:"poll,omitzero"`
	Lease       duration `json:"lease,omitzero"`
	MaxAttempts int      `json:"max_attempts,omitempty"`
	History     History  `json:"history,omitempty"`
	Completed   duration `json:"keep_completed,omitzero"`
	Poison      duration `json:"keep_poison,omitzero"`
	Parked      duration `json:"keep_parked,omitzero"`
	Attempts    duration `json:"keep_attempts,omitzero"`
	Archive     bool     `json:"archive,omitempty"`
}

// duration is written as 1m30s.
type duration time.Duration

// forever is how Forever is written.
const forever = "forever"

// MarshalText writes it as 1m30s, or forever.
func (d duration) MarshalText() ([]byte, error) {
	if time.Duration(d) == Forever {
		return []byte(forever), nil
	}
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText reads what time.ParseDuration reads, and forever.
func (d *duration) UnmarshalText(b []byte) error {
	if string(b) == forever {
		*d = duration(Forever)
		return nil
	}
	v, err := time.ParseDuration(string(b))
	*d = duration(v)
	return err
}

func (s QueueSettings) text() (string, error) {
	r := s.Retention
	b, err := json.Marshal(settingsText{
		s.Concurrency, s.Batch, duration(s.Poll), duration(s.Lease), s.MaxAttempts, s.History,
		duration(r.Completed), duration(r.Poison), duration(r.Parked), duration(r.Attempts), r.Archive,
	})
	return string(b), err
}

func settingsOf(text string) (QueueSettings, error) {
	var t settingsText
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return QueueSettings{}, fmt.Errorf("the settings in the database cannot be read (%w): set them again", err)
	}
	return QueueSettings{
		Concurrency: t.Concurrency, Batch: t.Batch, Poll: time.Duration(t.Poll), Lease: time.Duration(t.Lease),
		MaxAttempts: t.MaxAttempts, History: t.History,
		Retention: Retention{
			Completed: time.Duration(t.Completed), Poison: time.Duration(t.Poison), Parked: time.Duration(t.Parked),
			Attempts: time.Duration(t.Attempts), Archive: t.Archive,
		},
	}, nil
}

func (s QueueSettings) check() error {
	switch {
	case s.Concurrency < 0 || s.Concurrency > MaxCheckout:
		return fmt.Errorf("%w: concurrency %d, it must be 0 to %d", ErrOption, s.Concurrency, MaxCheckout)
	case s.Batch < 0 || s.Batch > MaxCheckout:
		return fmt.Errorf("%w: batch %d, it must be 0 to %d", ErrOption, s.Batch, MaxCheckout)
	case s.Poll < 0 || s.Poll > MaxLease:
		return fmt.Errorf("%w: poll %v, it must be 0 to %v", ErrOption, s.Poll, MaxLease)
	case s.MaxAttempts < 0 || s.MaxAttempts > MaxMaxAttempts:
		return fmt.Errorf("%w: %d, it must be 0 to %d", ErrMaxAttempts, s.MaxAttempts, MaxMaxAttempts)
	case s.History != "" && s.History != HistoryAll && s.History != HistoryFailures && s.History != HistoryNone:
		return fmt.Errorf("%w: history %q, use %s, %s or %s", ErrOption, s.History, HistoryAll, HistoryFailures, HistoryNone)
	case s.Lease != 0:
		if err := checkLeaseTime(s.Lease); err != nil {
			return err
		}
	}
	return s.Retention.check()
}

// Settings are what operators have set for the queue; the zero value when they have not.
func (q *Queue) Settings(ctx context.Context) (QueueSettings, error) {
	var s QueueSettings
	err := checkQueueName(q.name)
	if err == nil {
		var n dialect.NoteRow
		var exists bool
		if n, exists, err = q.c.note(ctx, noteQueue, q.name); exists {
			s, err = settingsOf(n.Value)
		}
	}
	return s, q.c.wrap("settings", q.name, uuid.Nil, err)
}

// Configure changes the queue's settings by what change does to them, atomically: of two who change different fields both win. change may
// be called several times. Invalid settings are ErrOption, ErrLeaseTime or ErrMaxAttempts, and change nothing.
func (q *Queue) Configure(ctx context.Context, change func(*QueueSettings)) error {
	err := checkQueueName(q.name)
	if err == nil {
		err = q.c.changeNote(ctx, noteQueue, q.name, 0, func(old dialect.NoteRow, exists bool) (string, error) {
			var s QueueSettings
			if exists { // what cannot be read is begun anew
				s, _ = settingsOf(old.Value)
			}
			change(&s)
			if err := s.check(); err != nil {
				return "", err
			}
			return s.text()
		})
	}
	if err == nil {
		q.c.rungAll(operators + q.name)
	}
	return q.c.wrap("configure", q.name, uuid.Nil, err)
}

// pauseText is what a pause says, as the database has it.
type pauseText struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by"`
}

// Pause makes the queue hand out nothing: each Checkout that begins after Pause has returned gets no task, by whatever client, until
// Resume. Tasks in work go on, and their leases can be extended and settled; new tasks are taken in. The reason is for people, at most
// MaxResult bytes as JSON; a pause of a paused queue replaces it.
func (q *Queue) Pause(ctx context.Context, reason string) error {
	err := checkQueueName(q.name)
	if err == nil {
		var value []byte
		if value, err = json.Marshal(pauseText{Reason: reason, By: q.c.cfg.name}); err == nil {
			err = q.c.putNote(ctx, notePause, q.name, string(value), 0)
		}
	}
	if err == nil {
		q.c.cfg.logger.Info("dbq: queue paused", "queue", q.name, "by", q.c.cfg.name, "reason", reason)
	}
	return q.c.wrap("pause", q.name, uuid.Nil, err)
}

// Resume ends a pause, and wakes the workers; none is no error.
func (q *Queue) Resume(ctx context.Context) error {
	err := checkQueueName(q.name)
	if err == nil {
		err = q.c.dropNote(ctx, notePause, q.name)
	}
	if err == nil {
		q.c.rung(q.name, wakeup{now: MaxBulk}) // nobody knows how many are due
		q.c.cfg.logger.Info("dbq: queue resumed", "queue", q.name, "by", q.c.cfg.name)
	}
	return q.c.wrap("resume", q.name, uuid.Nil, err)
}

// Queues lists the queues that operators have paused or set something for, by name.
func (c *Client) Queues(ctx context.Context) ([]QueueInfo, error) {
	settings, err := c.notes(ctx, noteQueue)
	var pauses []dialect.NoteRow
	if err == nil {
		pauses, err = c.notes(ctx, notePause)
	}
	if err != nil {
		return nil, c.wrap("queues", "", uuid.Nil, err)
	}
	byName := map[string]*QueueInfo{}
	at := func(name string) *QueueInfo {
		if byName[name] == nil {
			byName[name] = &QueueInfo{Queue: name}
		}
		return byName[name]
	}
	for _, n := range settings {
		if at(n.Name).Settings, err = settingsOf(n.Value); err != nil {
			return nil, c.wrap("queues", n.Name, uuid.Nil, err)
		}
	}
	for _, n := range pauses {
		var p pauseText
		_ = json.Unmarshal([]byte(n.Value), &p) // paused it is, whatever the note says
		i := at(n.Name)
		i.Paused, i.Since, i.Reason, i.By = true, fromMicros(&n.Updated), p.Reason, p.By
	}
	var out []QueueInfo
	for _, i := range byName {
		out = append(out, *i)
	}
	slices.SortFunc(out, func(a, b QueueInfo) int { return strings.Compare(a.Queue, b.Queue) })
	return out, nil
}
