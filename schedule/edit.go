package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
)

// Put creates a schedule, or replaces the one of the same name. A replaced schedule stays paused, and keeps its next
// time unless its times change. For a new schedule, Put returns ErrDefinition if At has passed.
func (s *Schedules) Put(ctx context.Context, d Schedule) error {
	return s.put(ctx, "put schedule", d, "", nil)
}

// put is Put for an owner. It refuses to take a schedule from another owner, and to change one that may refuses, unless
// may is nil.
func (s *Schedules) put(ctx context.Context, op string, d Schedule, owner string, may func(old *value) error) error {
	err := d.Check()
	if err == nil {
		ctx, err = s.audited(ctx, "put schedule", store.Audit{Queue: d.Queue, Subject: d.Name})
	}
	if err == nil {
		err = s.change(ctx, d.Name, func(old *value, now time.Time) (value, error) {
			v := valueOf(d)
			v.Start, v.Owner = now, owner
			if may != nil {
				if err := may(old); err != nil {
					return v, err
				}
			}
			if old != nil {
				if owner != "" && old.Owner != owner {
					return v, fmt.Errorf("%w: the schedule %q does not belong to %q, but to %q: delete it, or use another name",
						ErrDefinition, d.Name, owner, old.Owner)
				}
				v.keep(*old)
			}
			c, err := d.clock(v.Start)
			if err != nil {
				return v, err
			}
			if v.Start.Equal(now) {
				if v.Next = c.next(now); v.Next.IsZero() && owner == "" {
					return v, invalid("At", fmt.Errorf("%w: the time %s has passed", ErrDefinition, d.At.Format(time.RFC3339)))
				}
			}
			if _, err := v.correct(now); err != nil {
				return v, err
			}
			return v, v.fits()
		})
	}
	s.poke()
	return s.wrap(op, d.Queue, err)
}

// change replaces a record's value atomically. old is nil if there is none.
func (s *Schedules) change(ctx context.Context, name string,
	next func(old *value, now time.Time) (value, error)) error {
	return s.store.UpdateKV(ctx, namespace, name, func(r store.Record, exists bool) (string, time.Duration, error) {
		var old *value
		if exists {
			v, err := parse(r)
			if err != nil {
				return "", 0, err
			}
			old = &v
		} else {
			var err error
			if r.Now, err = s.store.ReadNow(ctx); err != nil {
				return "", 0, err
			}
		}
		v, err := next(old, nowOf(r))
		if err != nil {
			return "", 0, err
		}
		return v.encode(nowOf(r))
	})
}

// audited returns a context in which the next change adds an entry to the audit, without the payload and the headers.
func (s *Schedules) audited(ctx context.Context, action string, a store.Audit) (context.Context, error) {
	a.Action = action
	a.Show = func(text string) string {
		var v value
		if json.Unmarshal([]byte(text), &v) != nil {
			return ""
		}
		v.Task.Payload, v.Task.Headers = nil, nil
		b, _ := json.Marshal(v) // it was just read
		return string(b)
	}
	out, err := store.Audited(ctx, s.client.Info().Name, a)
	if err != nil {
		return ctx, err
	}
	return out, nil
}

// maxEditTries bounds how often edit follows a schedule that other clients move to another queue meanwhile.
const maxEditTries = 20

// errMoved ends a change of a schedule whose queue is not the one that the audit would name.
var errMoved = fmt.Errorf("%w: other clients keep changing the schedule's queue; try again", dbq.ErrConflict)

// edit is change for a schedule that must exist.
func (s *Schedules) edit(ctx context.Context, op, name string, p pause, f func(v *value, now time.Time) error) error {
	defer s.poke()
	queue, err := "", errMoved
	for try := 0; try < maxEditTries && errors.Is(err, errMoved); try++ {
		var v value
		if _, v, err = s.read(ctx, name); err != nil {
			break
		}
		queue = v.Queue
		var audited context.Context
		if audited, err = s.audited(ctx, op, auditOf(p, queue, name)); err != nil {
			break
		}
		err = s.change(audited, name, func(old *value, now time.Time) (value, error) {
			switch {
			case old == nil:
				return value{}, notFound(name)
			case old.Queue != queue:
				return value{}, errMoved
			}
			return *old, f(old, now)
		})
	}
	return s.wrap(op, queue, err)
}

// Option adds information for other people to a change. The audit keeps it.
type Option func(*pause)

// By sets the operator's name, in 1 to dbq.MaxReference characters. The default is the name in the context's
// admin.Origin, or the client's name; see dbq.WithName.
func By(operator string) Option { return func(p *pause) { p.By = operator } }

// Reason sets the reason for the change, in up to MaxReason characters. The default is the reason in the context's
// admin.Origin, cut to MaxReason bytes.
func Reason(text string) Option { return func(p *pause) { p.Reason = text } }

// withOptions returns a pause with the operator and the reason of the options or, without them, of the context.
func (s *Schedules) withOptions(ctx context.Context, opts []Option) (pause, error) {
	origin := store.OriginOf(ctx)
	p := pause{By: cmp.Or(origin.By, s.client.Info().Name), Reason: bounds.Cut(origin.Reason, MaxReason)}
	for _, opt := range opts {
		opt(&p)
	}
	err := bounds.Text(p.By, 1, dbq.MaxReference, dbq.ErrOption, "operator's name")
	if err == nil {
		err = bounds.Text(p.Reason, 0, MaxReason, dbq.ErrOption, "reason")
	}
	return p, err
}

// Pause stops a schedule until Resume. A second pause replaces the reason and the operator of the first.
func (s *Schedules) Pause(ctx context.Context, name string, opts ...Option) error {
	p, err := s.withOptions(ctx, opts)
	if err != nil {
		return s.wrap("pause schedule", "", err)
	}
	return s.edit(ctx, "pause schedule", name, p, func(v *value, now time.Time) error {
		p.Since = now
		v.Pause = &p
		return nil
	})
}

// auditOf returns the entry of the audit for a change of a schedule.
func auditOf(p pause, queue, name string) store.Audit {
	return store.Audit{Origin: store.Origin{By: p.By, Reason: p.Reason}, Queue: queue, Subject: name}
}

// Resume ends a pause. Times that passed during the pause are skipped. If the schedule is not paused, Resume does
// nothing.
func (s *Schedules) Resume(ctx context.Context, name string, opts ...Option) error {
	p, err := s.withOptions(ctx, opts)
	if err != nil {
		return s.wrap("resume schedule", "", err)
	}
	return s.edit(ctx, "resume schedule", name, p, func(v *value, now time.Time) error {
		if v.Pause == nil {
			return nil
		}
		d := v.schedule(name)
		c, err := d.clock(v.Start)
		if err != nil {
			return err
		}
		v.Pause, v.Next = nil, c.next(now)
		return nil
	})
}

// Delete removes a schedule. The tasks that it enqueued remain.
func (s *Schedules) Delete(ctx context.Context, name string, opts ...Option) error {
	p, err := s.withOptions(ctx, opts)
	var r store.Record
	if err == nil {
		r, err = s.record(ctx, name)
	}
	queue := ""
	if err == nil {
		if v, failed := parse(r); failed == nil { // one that cannot be read can be deleted
			queue = v.Queue
		}
		err = s.remove(ctx, auditOf(p, queue, name))
	}
	return s.wrap("delete schedule", queue, err)
}

// remove removes the record of the schedule that an entry of the audit names.
func (s *Schedules) remove(ctx context.Context, a store.Audit) error {
	name := a.Subject
	ctx, err := s.audited(ctx, "delete schedule", a)
	if err == nil {
		err = s.store.DeleteKV(ctx, namespace, name)
	}
	return err
}

// Get returns the schedule of a name, or dbq.ErrNotFound.
func (s *Schedules) Get(ctx context.Context, name string) (Info, error) {
	r, v, err := s.read(ctx, name)
	if err != nil {
		return Info{}, s.wrap("get schedule", "", err)
	}
	return v.info(r), nil
}

func notFound(name string) error {
	return fmt.Errorf("%w: no schedule is called %q", dbq.ErrNotFound, name)
}

// record reads the record of a schedule.
func (s *Schedules) record(ctx context.Context, name string) (store.Record, error) {
	r, exists, err := s.store.GetKV(ctx, namespace, name)
	if err == nil && !exists {
		err = notFound(name)
	}
	return r, err
}

// read reads a schedule.
func (s *Schedules) read(ctx context.Context, name string) (r store.Record, v value, err error) {
	if r, err = s.record(ctx, name); err == nil {
		v, err = parse(r)
	}
	return r, v, err
}

// List returns the schedules ordered by name, up to 10,000. If a schedule cannot be read, its Problem has the reason.
func (s *Schedules) List(ctx context.Context) ([]Info, error) {
	records, err := s.store.ListKV(ctx, namespace)
	if err != nil {
		return nil, s.wrap("list schedules", "", err)
	}
	out := make([]Info, len(records))
	for i, r := range records {
		v, err := parse(r)
		if err != nil {
			v = value{Problem: err.Error()}
		}
		out[i] = v.info(r)
	}
	return out, nil
}

// Reconcile makes the given schedules the only ones of owner: it puts each of them, and deletes owner's other
// schedules. It does not touch the schedules of others. If a name belongs to another owner, or was put without an
// owner, Reconcile returns ErrDefinition. If your program defines its schedules in code, call Reconcile when it starts,
// with the program's name as owner. It is not atomic; repeat it after an error. If two versions of a program call it at
// the same time, schedules that only one of them declares can remain, until the next Reconcile.
func (s *Schedules) Reconcile(ctx context.Context, owner string, schedules ...Schedule) error {
	if err := bounds.Text(owner, 1, MaxName, ErrDefinition, "owner"); err != nil {
		return s.wrap("reconcile schedules", "", err)
	}
	declared := map[string]bool{}
	for _, d := range schedules {
		if declared[d.Name] {
			return s.wrap("reconcile schedules", "", fmt.Errorf("%w: two schedules have the name %q", ErrDefinition, d.Name))
		}
		declared[d.Name] = true
		if err := d.Check(); err != nil {
			return s.wrap("reconcile schedules", "", fmt.Errorf("schedule %q: %w", d.Name, err))
		}
	}
	err := s.declare(ctx, schedules, owner)
	if err == nil {
		err = s.deleteUndeclared(ctx, declared, owner)
	}
	if err == nil { // another version of the program, which starts at the same time, may have deleted some
		err = s.declare(ctx, schedules, owner)
	}
	return err
}

// declare puts the schedules that are not yet stored like this. It does not change a single time that has passed.
func (s *Schedules) declare(ctx context.Context, schedules []Schedule, owner string) error {
	all, err := s.List(ctx)
	if err != nil {
		return err
	}
	stored := make(map[string]Info, len(all))
	for _, i := range all {
		stored[i.Name] = i
	}
	for _, d := range schedules {
		if i, ok := stored[d.Name]; ok && i.Owner == owner && equal(i.Schedule, d) {
			continue
		}
		if err := s.put(ctx, "reconcile schedules", d, owner, nil); err != nil {
			return err
		}
	}
	return nil
}

// deleteUndeclared deletes the schedules of an owner that are not declared.
func (s *Schedules) deleteUndeclared(ctx context.Context, declared map[string]bool, owner string) error {
	all, err := s.List(ctx)
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Owner == owner && !declared[i.Name] {
			if err := s.remove(ctx, store.Audit{Queue: i.Queue, Subject: i.Name}); err != nil {
				return s.wrap("reconcile schedules", i.Queue, err)
			}
		}
	}
	return nil
}
