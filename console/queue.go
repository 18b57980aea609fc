package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/store"
)

// queuePage shows a queue: its tasks by state, its workers, settings, limits and statistics. Its parts that refresh
// themselves request only themselves.
func (c *Console) queuePage(v *visit) error { return v.showQueue(refusal{}) }

// showQueue shows the page of a queue, with a form that was refused if there is one.
func (v *visit) showQueue(again refusal) error {
	queue := v.named("queue")
	if err := v.need(auth.Read, queue); err != nil {
		return err
	}
	if queue == "" {
		return errNoPage
	}
	chosen, err := v.span()
	if err != nil {
		return err
	}
	o, err := v.overview()
	if err != nil {
		return err
	}
	page := struct {
		queueRow
		refusal
		Counted  time.Time
		Old      bool // Counted is long ago
		Workers  []admin.WorkerInfo
		Settings admin.QueueSettings
		Limits   admin.QueueLimits
		Declared string // limits that a program declares, if others are in force
		Why      admin.Verdict
		Notes    []finding
		Series   series
		Marks    *marks
		Whole    bool
		Unknown  bool // it may be misspelled
		Near     []hit
	}{queueRow: queueRow{Queue: queue}, refusal: again, Counted: o.Counted, Old: o.Old(), Unknown: again.Refused == ""}
	one := overview{Counted: o.Counted, verdict: true}
	for _, q := range o.Queues {
		if q.Queue == queue {
			page.queueRow, page.Unknown = q, false
			one.Queues = []queueRow{q}
		}
	}
	page.Notes = one.findings(v)
	for _, w := range o.Workers {
		if w.Queue == queue {
			page.Workers, page.Unknown = append(page.Workers, w), false
		}
	}
	part := v.form("part")
	if !page.Unknown && part != "series" {
		if page.Why, err = v.why(queue, time.Time{}); err != nil {
			return err
		}
	}
	if page.Whole = part == ""; part != "figures" {
		if page.Series, err = v.series(queue, chosen); err != nil {
			return err
		}
	}
	if !page.Whole {
		v.show(http.StatusOK, "queue", "Queue "+queue, page)
		return nil
	}
	if page.Unknown { // or newer than the overview
		known, err := v.db.admin.Known(v.ctx(), queue)
		if err != nil {
			return err
		}
		if page.Unknown = !known; known {
			if page.Why, err = v.why(queue, time.Time{}); err != nil {
				return err
			}
		} else {
			page.Near = near(v.names(overview{Queues: o.Queues}), queue)
		}
	}
	if page.Marks, err = v.marks(queue, page.Series.from, page.Workers); err != nil {
		return err
	}
	if page.Settings, err = v.db.admin.QueueSettings(v.ctx(), queue); err != nil {
		return err
	}
	if page.Limits, err = v.db.admin.QueueLimits(v.ctx(), queue); err != nil {
		return err
	}
	declared, some, err := v.db.admin.DeclaredLimits(v.ctx(), queue)
	if err != nil {
		return err
	}
	if some && declared != page.Limits {
		text, _ := json.Marshal(declared) // it has only numbers and texts
		page.Declared = string(text)
	}
	v.show(again.status(), "queue", "Queue "+queue, page)
	return nil
}

// changeQueue applies a change to the queue of the form and returns to its page.
func (v *visit) changeQueue(a auth.Action, message string, change func(queue string) error) error {
	queue := v.named("queue")
	if err := v.need(a, queue); err != nil {
		return err
	}
	err := change(queue)
	if errors.Is(err, errOutdated) {
		return v.done(v.path("queue", "queue", queue),
			"Nothing was changed: someone has changed this meanwhile. This page shows what is set now.")
	}
	if err != nil {
		return err
	}
	v.db.changed()
	return v.done(v.path("queue", "queue", queue), message)
}

func (c *Console) pauseQueue(v *visit) error {
	return v.changeQueue(auth.Operate, "The queue is paused. Running tasks go on, and no other task starts.",
		func(queue string) error { return v.db.admin.PauseQueue(v.ctx(), queue) })
}

func (c *Console) resumeQueue(v *visit) error {
	return v.changeQueue(auth.Operate, "The queue is resumed.",
		func(queue string) error { return v.db.admin.ResumeQueue(v.ctx(), queue) })
}

// queueForm shows a form of a queue's page again if it is invalid.
func (v *visit) queueForm(form string, err error) error {
	if again, ok := v.refusal(form, err); ok && v.may(auth.Configure, v.named("queue")) {
		return v.showQueue(again)
	}
	return err
}

func (c *Console) limitQueue(v *visit) error { return v.queueForm("limits", v.limitQueue()) }

func (v *visit) limitQueue() error {
	var l admin.QueueLimits
	err := v.read(field{"running", &l.Concurrency},
		field{"rate_starts", &l.Rate.Starts}, field{"rate_per", &l.Rate.Per}, field{"rate_burst", &l.Rate.Burst},
		field{"key_running", &l.KeyConcurrency}, field{"key_rate_starts", &l.KeyRate.Starts},
		field{"key_rate_per", &l.KeyRate.Per}, field{"key_rate_burst", &l.KeyRate.Burst})
	err = invalid(err, checkRunning("running", l.Concurrency), checkRate("rate", &l.Rate),
		checkRunning("key_running", l.KeyConcurrency), checkRate("key_rate", &l.KeyRate))
	if err != nil {
		return err
	}
	l.PerKey, l.Order = v.form("per_key") != "", admin.KeyOrder(v.form("order"))
	return v.changeQueue(auth.Configure, "The limits are changed.", func(queue string) error {
		outdated := false
		err := v.db.admin.ConfigureLimits(v.ctx(), queue, func(stored *admin.QueueLimits) {
			if outdated = v.outdated(stored); outdated {
				return
			}
			stored.Concurrency, stored.Rate, stored.PerKey = l.Concurrency, l.Rate, l.PerKey
			stored.KeyConcurrency, stored.KeyRate, stored.Order = l.KeyConcurrency, l.KeyRate, l.Order
		})
		return unlessOutdated(outdated, err)
	})
}

func (c *Console) resetLimits(v *visit) error {
	return v.changeQueue(auth.Configure, "The limits are those that the program declares.",
		func(queue string) error { return v.db.admin.ResetLimits(v.ctx(), queue) })
}

// checkRunning refuses a limit of leased tasks that is too large.
func checkRunning(field string, n int) error {
	if err := (store.Limits{Concurrency: n}).Check(); err != nil {
		return fieldError{field, formError(label(field) + ": " + reason(err))}
	}
	return nil
}

// checkRate completes a rate of the form and refuses its parts that are invalid. Without starts, there is no rate.
func checkRate(name string, r *admin.Rate) error {
	if r.Starts == 0 {
		*r = admin.Rate{}
		return nil
	}
	r.Burst = max(r.Burst, 1)
	valid := func(starts int, per time.Duration, burst int) bool {
		return (store.Limits{Rate: store.Rate{Starts: starts, Per: per, Burst: burst}}).Check() == nil
	}
	wrong := func(part, text string) error { return fieldError{name + "_" + part, formError(text)} }
	var errs []error
	if !valid(r.Starts, time.Second, 1) {
		errs = append(errs, wrong("starts", "enter 1 to 1,000,000, or nothing for no limit"))
	}
	if !valid(1, r.Per, 1) {
		errs = append(errs, wrong("per", "enter the time in which so many tasks may start, such as 1m; at most 365d"))
	}
	if !valid(1, time.Second, r.Burst) {
		errs = append(errs, wrong("burst", "enter 1 to 1,000,000, or nothing for 1"))
	}
	if len(errs) == 0 && !valid(r.Starts, r.Per, r.Burst) {
		errs = append(errs, wrong("burst", "this is too large for so slow a rate"))
	}
	return invalid(errs...)
}

// field is a field of a form, and the number or duration that it sets.
type field struct {
	name string
	to   any
}

// read reads fields of the form; an empty one is 0.
func (v *visit) read(fields ...field) error {
	errs := make([]error, len(fields))
	for i, f := range fields {
		switch to := f.to.(type) {
		case *int:
			*to, errs[i] = whole(f.name, v.form(f.name))
		case *time.Duration:
			*to, errs[i] = length(f.name, v.form(f.name))
		case *kept:
			*to, errs[i] = retention(f.name, v.form(f.name))
		}
	}
	return invalid(errs...)
}

// whole reads a whole number of a field; empty is 0.
func whole(field, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fieldError{field, formError(label(field) + " must be a whole number")}
	}
	return n, nil
}
