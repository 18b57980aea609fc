package console

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/schedule"
)

func (c *Console) schedulesPage(v *visit) error {
	l, err := v.listed()
	if err != nil {
		return err
	}
	slices.SortStableFunc(l.Schedules, func(a, b schedule.Info) int { // the next one first, those without a time last
		switch {
		case a.Next.IsZero() == b.Next.IsZero():
			return a.Next.Compare(b.Next)
		case a.Next.IsZero():
			return 1
		}
		return -1
	})
	v.show(http.StatusOK, "schedules", "Schedules",
		schedulesView{l.Schedules, nextDayOf(l.Schedules, v.clock()), v.needSomewhere(auth.Configure) == nil})
	return nil
}

// schedulesView is the content of the page of the schedules.
type schedulesView struct {
	Schedules []schedule.Info
	Day       nextDay
	New       bool // the user may create one
}

// Headline returns how many schedules there are, and how many of them have a problem.
func (s schedulesView) Headline() string {
	skipped := 0
	for _, one := range s.Schedules {
		if one.Problem != "" {
			skipped++
		}
	}
	text := number(len(s.Schedules)) + " schedules"
	switch len(s.Schedules) {
	case 0:
		return "There are no schedules"
	case 1:
		text = "1 schedule"
	}
	if skipped > 0 {
		text += ", " + number(skipped) + " skipped the last time"
	}
	return text
}

// schedule reads the schedule of the form's name if the user may apply an action to its queue.
func (v *visit) schedule(a auth.Action) (schedule.Info, error) {
	s, err := v.db.schedules.Get(v.ctx(), v.named("name"))
	switch {
	case err != nil:
		return s, err
	case !v.may(auth.Read, s.Queue):
		return s, dbq.ErrNotFound
	}
	return s, v.need(a, s.Queue)
}

// schedulePage shows a schedule and its next ten times.
func (c *Console) schedulePage(v *visit) error {
	s, err := v.schedule(auth.Read)
	if err != nil {
		return err
	}
	now, err := v.db.client.Now(v.ctx())
	if err != nil {
		return err
	}
	next, err := s.Times(now, 10)
	if err != nil {
		return err
	}
	t := dbq.Task{Queue: s.Queue, Kind: s.Task.Kind, Payload: s.Task.Payload, Headers: s.Task.Headers}
	v.sees().Task(&t)
	s.Task.Payload, s.Task.Headers = t.Payload, t.Headers
	runs, err := v.runs(s)
	if err != nil {
		return err
	}
	v.show(http.StatusOK, "schedule", "Schedule "+s.Name, struct {
		schedule.Info
		Times    []time.Time
		Runs     []dbq.Task
		Payloads bool
	}{s, next, runs, v.user.Payloads})
	return nil
}

// runsShown is how many runs the page of a schedule lists.
const runsShown = 20

// runs returns the tasks of the latest times of a schedule, the newest first.
func (v *visit) runs(s schedule.Info) (out []dbq.Task, err error) {
	references, err := s.References(runsShown)
	for _, reference := range references {
		found, err := v.db.admin.List(v.ctx(), admin.Filter{Queue: s.Queue, Reference: reference, Limit: 1})
		if err != nil {
			return nil, err
		}
		for _, t := range found.Tasks {
			v.sees().Task(&t)
			out = append(out, t)
		}
	}
	return out, err
}

// changeSchedule pauses, resumes, runs or deletes a schedule.
func (c *Console) changeSchedule(v *visit) error {
	verb, action := v.r.PathValue("verb"), auth.Operate
	if verb == "delete" {
		action = auth.Configure
	}
	s, err := v.schedule(action)
	if errors.Is(err, dbq.ErrNotFound) {
		return v.done(v.path("schedules"), "Nothing was changed: the schedule does not exist any more.")
	}
	if err != nil {
		return err
	}
	to, message := v.path("schedule", "name", s.Name), ""
	switch verb {
	case "pause":
		err = v.db.schedules.Pause(v.ctx(), s.Name)
		message = "The schedule is paused."
	case "resume":
		err = v.db.schedules.Resume(v.ctx(), s.Name)
		message = "The schedule is resumed."
	case "run":
		id, runErr := v.db.schedules.RunNow(v.ctx(), s.Name)
		err, to, message = runErr, v.path("task/"+id.String()), "The schedule has enqueued this task now."
	case "delete":
		err = v.db.schedules.Delete(v.ctx(), s.Name)
		to, message = v.path("schedules"), "The schedule is deleted."
	default:
		err = errNoPage
	}
	if errors.Is(err, dbq.ErrNotFound) { // it was deleted in between
		to, message, err = v.path("schedules"), "Nothing was changed: the schedule does not exist any more.", nil
	}
	if err != nil {
		return err
	}
	v.db.changed()
	return v.done(to, message)
}
