package api

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

// Settings are the settings of a queue. On input, fields that are left out stay as they are, and 0 or "" unsets one.
type Settings struct {
	Concurrency          *int     `json:"concurrency,omitempty" minimum:"0"`
	Batch                *int     `json:"batch,omitempty" minimum:"0"`
	PollSeconds          *float64 `json:"poll_seconds,omitempty" minimum:"0"`
	LeaseSeconds         *float64 `json:"lease_seconds,omitempty" minimum:"0"`
	MaxAttempts          *int     `json:"max_attempts,omitempty" minimum:"0"`
	History              *string  `json:"history,omitempty" enum:"all,failures,none,"`
	DeadLetter           *string  `json:"dead_letter,omitempty"`
	KeepCompletedSeconds *float64 `json:"keep_completed_seconds,omitempty" minimum:"-1"`
	KeepPoisonSeconds    *float64 `json:"keep_poison_seconds,omitempty" minimum:"-1"`
	KeepParkedSeconds    *float64 `json:"keep_parked_seconds,omitempty" minimum:"-1"`
	KeepAttemptsSeconds  *float64 `json:"keep_attempts_seconds,omitempty" minimum:"-1"`
	Archive              *bool    `json:"archive,omitempty"`
	NoStatistics         *bool    `json:"no_statistics,omitempty"`
}

// Limits are the limits of a queue. On input, fields that are left out stay as they are, and 0 removes a limit.
type Limits struct {
	Leased         *int     `json:"leased,omitempty" minimum:"0"`
	RateStarts     *int     `json:"rate_starts,omitempty" minimum:"0"`
	RatePerSeconds *float64 `json:"rate_per_seconds,omitempty" minimum:"0"`
	RateBurst      *int     `json:"rate_burst,omitempty" minimum:"0"`
	PerKey         *bool    `json:"per_key,omitempty"`
	KeyLeased      *int     `json:"key_leased,omitempty" minimum:"0"`
	KeyRateStarts  *int     `json:"key_rate_starts,omitempty" minimum:"0"`
	KeyRateSeconds *float64 `json:"key_rate_per_seconds,omitempty" minimum:"0"`
	KeyRateBurst   *int     `json:"key_rate_burst,omitempty" minimum:"0"`
	Order          *string  `json:"order,omitempty" enum:"block,skip,"`
}

// set replaces a value by one that is given.
func set[T, V any](to *T, given *V, convert func(V) T) {
	if given != nil {
		*to = convert(*given)
	}
}

func same[T any](v T) T { return v }

// keepFor converts a retention: -1 is forever.
func keepFor(s float64) time.Duration {
	if s < 0 {
		return dbq.Forever
	}
	return seconds(s)
}

func (s Settings) apply(to *admin.QueueSettings) {
	set(&to.Concurrency, s.Concurrency, same)
	set(&to.Batch, s.Batch, same)
	set(&to.Poll, s.PollSeconds, seconds)
	set(&to.Lease, s.LeaseSeconds, seconds)
	set(&to.MaxAttempts, s.MaxAttempts, same)
	set(&to.History, s.History, func(h string) dbq.History { return dbq.History(h) })
	set(&to.DeadLetter, s.DeadLetter, same)
	set(&to.Retention.Completed, s.KeepCompletedSeconds, keepFor)
	set(&to.Retention.Poison, s.KeepPoisonSeconds, keepFor)
	set(&to.Retention.Parked, s.KeepParkedSeconds, keepFor)
	set(&to.Retention.Attempts, s.KeepAttemptsSeconds, keepFor)
	set(&to.Retention.Archive, s.Archive, same)
	set(&to.NoStatistics, s.NoStatistics, same)
}

func (l Limits) apply(to *admin.QueueLimits) {
	set(&to.Leased, l.Leased, same)
	setRate(&to.Rate, l.RateStarts, l.RatePerSeconds, l.RateBurst)
	set(&to.PerKey, l.PerKey, same)
	set(&to.KeyLeased, l.KeyLeased, same)
	setRate(&to.KeyRate, l.KeyRateStarts, l.KeyRateSeconds, l.KeyRateBurst)
	set(&to.Order, l.Order, func(o string) admin.KeyOrder { return admin.KeyOrder(o) })
}

// setRate changes a rate. 0 starts remove it.
func setRate(to *admin.Rate, starts *int, per *float64, burst *int) {
	set(&to.Starts, starts, same)
	set(&to.Per, per, seconds)
	set(&to.Burst, burst, same)
	if to.Starts == 0 && per == nil && burst == nil {
		*to = admin.Rate{}
	}
}

// shown returns a value to show, or nil for the zero value, which is left out.
func shown[T comparable, V any](v T, convert func(T) V) *V {
	var zero T
	if v == zero {
		return nil
	}
	out := convert(v)
	return &out
}

// keptFor is the inverse of keepFor.
func keptFor(d time.Duration) float64 {
	if d == dbq.Forever {
		return -1
	}
	return inSeconds(d)
}

func settingsOf(s admin.QueueSettings) Settings {
	return Settings{
		Concurrency: shown(s.Concurrency, same), Batch: shown(s.Batch, same), PollSeconds: shown(s.Poll, inSeconds),
		LeaseSeconds: shown(s.Lease, inSeconds), MaxAttempts: shown(s.MaxAttempts, same),
		History:    shown(s.History, func(h dbq.History) string { return string(h) }),
		DeadLetter: shown(s.DeadLetter, same), KeepCompletedSeconds: shown(s.Retention.Completed, keptFor),
		KeepPoisonSeconds: shown(s.Retention.Poison, keptFor), KeepParkedSeconds: shown(s.Retention.Parked, keptFor),
		KeepAttemptsSeconds: shown(s.Retention.Attempts, keptFor), Archive: shown(s.Retention.Archive, same),
		NoStatistics: shown(s.NoStatistics, same),
	}
}

func limitsOf(l admin.QueueLimits) Limits {
	return Limits{
		Leased: shown(l.Leased, same), RateStarts: shown(l.Rate.Starts, same),
		RatePerSeconds: shown(l.Rate.Per, inSeconds), RateBurst: shown(l.Rate.Burst, same),
		PerKey: shown(l.PerKey, same), KeyLeased: shown(l.KeyLeased, same),
		KeyRateStarts: shown(l.KeyRate.Starts, same), KeyRateSeconds: shown(l.KeyRate.Per, inSeconds),
		KeyRateBurst: shown(l.KeyRate.Burst, same), Order: shown(l.Order, func(o admin.KeyOrder) string { return string(o) }),
	}
}

// Queue describes a queue that is paused, or has settings or limits.
type Queue struct {
	Queue    string    `json:"queue"`
	Paused   bool      `json:"paused"`
	Since    time.Time `json:"since,omitzero"`
	By       string    `json:"by,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Settings Settings  `json:"settings"`
	Limits   Limits    `json:"limits"`
}

// listedQueues is the response with such queues.
type listedQueues struct {
	Body struct {
		Queues []Queue `json:"queues" nullable:"false"`
	}
}

func (a *API) listQueues(ctx context.Context, in *oneDatabase) (*listedQueues, error) {
	d, p, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	queues, err := d.admin.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var out listedQueues
	out.Body.Queues = []Queue{}
	for _, q := range queues {
		if p.May(auth.Read, in.Database, q.Queue) {
			out.Body.Queues = append(out.Body.Queues,
				Queue{q.Queue, q.Paused, q.Since, q.By, q.Reason, settingsOf(q.Settings), limitsOf(q.Limits)})
		}
	}
	return &out, nil
}

// pauseQueue is a request to pause or resume a queue.
type pauseQueue struct {
	InQueue
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}

func (a *API) pause(ctx context.Context, in *pauseQueue) (*struct{}, error) {
	d, p, err := a.open(ctx, auth.Operate, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	return nil, d.admin.PauseQueue(ctx, in.Queue, by(p, in.Body.Reason)...)
}

func (a *API) resume(ctx context.Context, in *pauseQueue) (*struct{}, error) {
	d, p, err := a.open(ctx, auth.Operate, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	return nil, d.admin.ResumeQueue(ctx, in.Queue, by(p, in.Body.Reason)...)
}

// configureQueue is a request to change the settings of a queue.
type configureQueue struct {
	InQueue
	Body Settings
}

// gotSettings is the response with the settings of a queue.
type gotSettings struct{ Body Settings }

func (a *API) readSettings(ctx context.Context, in *InQueue) (*gotSettings, error) {
	d, _, err := a.open(ctx, auth.Read, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	s, err := d.admin.QueueSettings(ctx, in.Queue)
	return &gotSettings{settingsOf(s)}, err
}

func (a *API) configure(ctx context.Context, in *configureQueue) (*gotSettings, error) {
	d, p, err := a.open(ctx, auth.Configure, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	if to := in.Body.DeadLetter; to != nil && *to != "" && !p.May(auth.Enqueue, in.Database, *to) {
		return nil, forbidden.problem()
	}
	var now admin.QueueSettings
	err = d.admin.ConfigureQueue(ctx, in.Queue, func(s *admin.QueueSettings) { in.Body.apply(s); now = *s })
	return &gotSettings{settingsOf(now)}, err
}

// configureLimits is a request to change the limits of a queue.
type configureLimits struct {
	InQueue
	Body Limits
}

// gotLimits is the response with the limits of a queue.
type gotLimits struct{ Body Limits }

func (a *API) readLimits(ctx context.Context, in *InQueue) (*gotLimits, error) {
	d, _, err := a.open(ctx, auth.Read, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	l, err := d.admin.QueueLimits(ctx, in.Queue)
	return &gotLimits{limitsOf(l)}, err
}

func (a *API) limit(ctx context.Context, in *configureLimits) (*gotLimits, error) {
	d, _, err := a.open(ctx, auth.Configure, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var now admin.QueueLimits
	err = d.admin.ConfigureLimits(ctx, in.Queue, func(l *admin.QueueLimits) { in.Body.apply(l); now = *l })
	return &gotLimits{limitsOf(now)}, err
}
