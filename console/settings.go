package console

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/duration"
)

func (c *Console) configureQueue(v *visit) error { return v.queueForm("settings", v.configureQueue()) }

func (v *visit) configureQueue() error {
	s, err := v.settings()
	if err != nil {
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
