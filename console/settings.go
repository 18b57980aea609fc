package console

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/duration"
)

func (c *Console) configureQueue(v *visit) error { return v.queueForm("settings", v.configureQueue()) }

func (v *visit) configureQueue() error {
	s, err := v.settings()
	if err = invalid(err, checkSettings(v.named("queue"), s)); err != nil {
		return err
	}
	// Notices carry errors of this queue to the other one.
	if s.DeadLetter != "" && !v.may(auth.Enqueue, s.DeadLetter) {
		return errForbidden
	}
	return v.changeQueue(auth.Configure, "The settings are changed. Workers apply them while they run.",
		func(queue string) error {
			outdated := false
			err := v.db.admin.ConfigureQueue(v.ctx(), queue, func(stored *admin.QueueSettings) {
				if outdated = v.outdated(stored); !outdated {
					*stored = s
				}
			})
			return unlessOutdated(outdated, err)
		})
}

// settings reads the form of a queue's settings, which has all of them.
func (v *visit) settings() (s admin.QueueSettings, err error) {
	r := &s.Retention
	err = v.read(field{"concurrency", &s.Concurrency}, field{"max_checkout", &s.MaxCheckout},
		field{"max_attempts", &s.MaxAttempts},
		field{"poll", &s.Poll}, field{"lease", &s.Lease},
		field{"keep_completed", (*kept)(&r.Completed)}, field{"keep_poison", (*kept)(&r.Poison)},
		field{"keep_cancelled", (*kept)(&r.Cancelled)}, field{"keep_parked", (*kept)(&r.Parked)},
		field{"keep_attempts", (*kept)(&r.Attempts)})
	s.History, s.DeadLetter = dbq.History(v.form("history")), v.named("dead_letter")
	s.Retention.Archive, s.NoStatistics = v.form("archive") != "", v.form("no_statistics") != ""
	return s, err
}

// checkSettings refuses the settings of a queue that are invalid, each by itself. None depends on another one.
func checkSettings(queue string, s admin.QueueSettings) error {
	r := s.Retention
	var errs []error
	for _, one := range []struct {
		field string
		only  control.Settings
	}{
		{"concurrency", control.Settings{Concurrency: s.Concurrency}},
		{"max_checkout", control.Settings{MaxCheckout: s.MaxCheckout}},
		{"poll", control.Settings{Poll: duration.Seconds(s.Poll)}},
		{"lease", control.Settings{Lease: duration.Seconds(s.Lease)}},
		{"max_attempts", control.Settings{MaxAttempts: s.MaxAttempts}},
		{"dead_letter", control.Settings{DeadLetter: s.DeadLetter}},
		{"keep_completed", control.Settings{KeepCompleted: duration.Seconds(r.Completed)}},
		{"keep_poison", control.Settings{KeepPoison: duration.Seconds(r.Poison)}},
		{"keep_cancelled", control.Settings{KeepCancelled: duration.Seconds(r.Cancelled)}},
		{"keep_parked", control.Settings{KeepParked: duration.Seconds(r.Parked)}},
		{"keep_attempts", control.Settings{KeepAttempts: duration.Seconds(r.Attempts)}},
	} {
		if err := one.only.Check(queue); err != nil {
			errs = append(errs, fieldError{one.field, formError(reason(err))})
		}
	}
	return invalid(errs...)
}

// kept is a duration that may be forever.
type kept time.Duration

// retention reads a field such as 7d or forever; empty is 0.
func retention(field, text string) (kept, error) {
	if text == duration.ForeverText {
		return kept(dbq.Forever), nil
	}
	d, err := length(field, text)
	if err != nil {
		err = fieldError{field, formError(err.Error() + ", or forever")}
	}
	return kept(d), err
}

// typed writes a duration as a form has it, such as 7d, 1h30m or forever; 0 is empty.
func typed(d time.Duration) string {
	switch d {
	case 0:
		return ""
	case dbq.Forever:
		return duration.ForeverText
	}
	return duration.Format(d)
}
