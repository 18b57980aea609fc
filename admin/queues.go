package admin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/store"
)

// QueueSettings are the settings of a queue. Its workers apply them while they run. They override the workers' own
// fields, except where a field is zero. Their JSON is the same as in the HTTP API. It leaves a zero field out, and
// reading it changes only the fields that it has.
type QueueSettings struct {
	Concurrency int           // tasks that each worker runs at once: up to dbq.MaxCheckout
	MaxCheckout int           // tasks in one checkout: up to dbq.MaxCheckout
	Poll        time.Duration // the longest pause between two polls of an idle worker: up to dbq.MaxLease
	Lease       time.Duration // dbq.MinLease to dbq.MaxLease
	MaxAttempts int           // caps the tasks' own limits: up to dbq.MaxMaxAttempts
	History     dbq.History   // which attempts are recorded
	Retention   dbq.Retention // how long ended tasks and the history are kept
	// DeadLetter is the queue that gets a notice, of kind dbq.KindPoison, for each task of this queue that goes to
	// POISON. It is enqueued in the same transaction. Operators' own events make no notices.
	DeadLetter string
	// NoStatistics turns the statistics over time of this queue off; see Series.
	NoStatistics bool
}

// QueueInfo describes a queue that is paused, or has settings or limits.
type QueueInfo struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
	// Since, By and Reason describe the pause.
	Since    time.Time     `json:"since,omitzero"`
	By       string        `json:"by,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Settings QueueSettings `json:"settings"`
	Limits   QueueLimits   `json:"limits"`
	// DeclaredLimits are those of DeclareLimits, or nil. They are in force unless an operator has changed the limits.
	DeclaredLimits *QueueLimits `json:"declared_limits,omitempty"`

	allowed store.Allowance // what the rate allowed when the limits were read
}

// Queues lists the queues that are paused, or have settings or limits, ordered by name. Stats lists those that have
// tasks.
func (a *Admin) Queues(ctx context.Context) ([]QueueInfo, error) {
	queues, err := a.core.Control.Queues(ctx)
	var out []QueueInfo
	for _, q := range queues {
		out = append(out, infoOf(q))
	}
	return out, err
}

func infoOf(q control.Queue) QueueInfo {
	info := QueueInfo{
		Queue: q.Name, Paused: q.Paused, Since: q.Since, By: q.By, Reason: q.Reason,
		Settings: settingsOf(q.Settings), Limits: limitsOf(q.Limits.Limits), allowed: q.Limits.Allowed,
	}
	if q.Limits.Declared != nil {
		declared := limitsOf(*q.Limits.Declared)
		info.DeclaredLimits = &declared
	}
	return info
}

// PauseQueue stops a queue from handing out tasks until ResumeQueue: every checkout of any client that starts after
// PauseQueue has returned finds none. Running tasks continue: their leases can be extended and settled. New tasks can
// be enqueued. A second pause replaces the reason and the operator of the first.
func (a *Admin) PauseQueue(ctx context.Context, queue string, opts ...Option) error {
	ctx, o, err := a.audited(ctx, opts, store.Audit{Action: "pause queue", Queue: queue})
	if err != nil {
		return a.wrap("pause", queue, err)
	}
	return a.core.Control.PauseQueue(ctx, queue, o.by, o.reason)
}

// ResumeQueue ends a pause and wakes the queue's workers. Resuming a queue that is not paused is not an error.
func (a *Admin) ResumeQueue(ctx context.Context, queue string, opts ...Option) error {
	ctx, o, err := a.audited(ctx, opts, store.Audit{Action: "resume queue", Queue: queue})
	if err != nil {
		return a.wrap("resume", queue, err)
	}
	return a.core.Control.ResumeQueue(ctx, queue, o.by, o.reason)
}

// QueueSettings returns a queue's settings, or the zero value if none are set.
func (a *Admin) QueueSettings(ctx context.Context, queue string) (QueueSettings, error) {
	s, err := a.core.Control.Settings(ctx, queue)
	return settingsOf(s), err
}

// ConfigureQueue changes a queue's settings atomically: concurrent updates to different fields are both applied. It
// can call change several times. For invalid settings it returns dbq.ErrOption, dbq.ErrLeaseTime,
// dbq.ErrMaxAttempts or dbq.ErrQueueName and changes nothing.
func (a *Admin) ConfigureQueue(
	ctx context.Context, queue string, change func(*QueueSettings), opts ...Option,
) error {
	ctx, _, err := a.audited(ctx, opts, store.Audit{Action: "configure queue", Queue: queue})
	if err != nil {
		return a.wrap("configure", queue, err)
	}
	return a.core.Control.Configure(ctx, queue, func(stored *control.Settings) {
		s := settingsOf(*stored)
		change(&s)
		*stored = s.stored()
	})
}

// stored returns the settings in their stored form.
func (s QueueSettings) stored() control.Settings {
	out := control.Settings{
		Concurrency: s.Concurrency, MaxCheckout: s.MaxCheckout, Poll: duration.Seconds(s.Poll),
		Lease:       duration.Seconds(s.Lease),
		MaxAttempts: s.MaxAttempts, History: string(s.History), DeadLetter: s.DeadLetter,
		NoStatistics: s.NoStatistics,
	}
	out.SetRetention(store.Retention(s.Retention))
	return out
}

func settingsOf(s control.Settings) QueueSettings {
	return QueueSettings{
		Concurrency: s.Concurrency, MaxCheckout: s.MaxCheckout, Poll: time.Duration(s.Poll), Lease: time.Duration(s.Lease),
		MaxAttempts: s.MaxAttempts, History: dbq.History(s.History), Retention: dbq.Retention(s.Retention()),
		DeadLetter: s.DeadLetter, NoStatistics: s.NoStatistics,
	}
}

// MarshalJSON writes the settings as the HTTP API does.
func (s QueueSettings) MarshalJSON() ([]byte, error) { return json.Marshal(s.stored()) }

// UnmarshalJSON changes the settings that b has.
func (s *QueueSettings) UnmarshalJSON(b []byte) error {
	stored := s.stored()
	err := json.Unmarshal(b, &stored)
	*s = settingsOf(stored)
	return err
}
