package console

import (
	"strconv"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

func (c *Console) configureQueue(v *visit) error { return v.queueForm("settings", v.configureQueue()) }

func (v *visit) configureQueue() error {
	s, err := v.settings()
	if err != nil {
		return err
	}
	// Notices carry errors of this queue to the other one.
	if s.DeadLetter != "" && !v.may(auth.Configure, s.DeadLetter) {
		return errForbidden
	}
	return v.changeQueue(auth.Configure, "The settings are changed. Workers apply them while they run.",
		func(queue string) error {
			outdated := false
			err := v.db.admin.ConfigureQueue(v.ctx(), queue, func(stored *admin.QueueSettings) {
				if outdated = v.outdated(stored); !outdated {
					*stored = s
				}
			}, v.changes()...)
			return unlessOutdated(outdated, err)
		})
}

// settings reads the form of a queue's settings, which has all of them.
func (v *visit) settings() (s admin.QueueSettings, err error) {
	for _, field := range []struct {
		name string
		to   *int
	}{{"concurrency", &s.Concurrency}, {"batch", &s.Batch}, {"max_attempts", &s.MaxAttempts}} {
		if *field.to, err = v.count(field.name); err != nil {
			return s, err
		}
	}
	for _, field := range []struct {
		name string
		to   *time.Duration
		read func(field, text string) (time.Duration, error)
	}{
		{"poll", &s.Poll, duration}, {"lease", &s.Lease, duration},
		{"keep_completed", &s.Retention.Completed, retention}, {"keep_poison", &s.Retention.Poison, retention},
		{"keep_parked", &s.Retention.Parked, retention}, {"keep_attempts", &s.Retention.Attempts, retention},
	} {
		if *field.to, err = field.read(field.name, v.form(field.name)); err != nil {
			return s, err
		}
	}
	s.History, s.DeadLetter = dbq.History(v.form("history")), v.named("dead_letter")
	s.Retention.Archive, s.NoStatistics = v.form("archive") != "", v.form("no_statistics") != ""
	return s, nil
}

// forever is dbq.Forever in a form.
const forever = "forever"

// retention reads a field such as 7d or forever; empty is 0.
func retention(field, text string) (time.Duration, error) {
	if text == forever {
		return dbq.Forever, nil
	}
	d, err := duration(field, text)
	if err != nil {
		err = fieldError{field, formError(err.Error() + ", or forever")}
	}
	return d, err
}

// typed writes a duration as a form has it, such as 7d, 1h30m or forever; 0 is empty.
func typed(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return ""
	case d == dbq.Forever:
		return forever
	case d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	case d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d%time.Minute == 0:
		text := d.String()
		return text[:len(text)-len("0s")]
	}
	return d.String()
}
