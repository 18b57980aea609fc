package console_test

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/redaction"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

var hiddenRevision = regexp.MustCompile(`name="revision" value="([^"]+)"`)

// revision reads the form of a schedule, and returns the revision that it would send.
func (s *site) revision(name string) string {
	s.t.Helper()
	m := hiddenRevision.FindStringSubmatch(s.get(200, "/db/shop/schedule/edit", "name", name))
	if m == nil {
		s.t.Fatal("the form has no revision")
	}
	return m[1]
}

func TestScheduleIsCreatedAndEditedByForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	schedules := schedule.New(s.client)
	s.shows(s.get(200, "/db/shop/schedules"), "There are no schedules", "New schedule…")
	s.get(200, "/db/shop/schedule/edit")
	to := s.post(303, "/db/shop/schedule/save", "name", "nightly", "cron", "30 2 * * *", "zone", "Europe/Berlin",
		"queue", "reports", "kind", "report", "key", "acme", "payload", "{\r\n\"n\": 12345678901234567890}", "json", "yes",
		"headers", "tag: blue", "priority", "3", "delay", "10s", "max_attempts", "7", "catch_up", "0",
		"no_overlap", "yes", "jitter", "1m")
	s.shows(s.get(200, to), "Next times", "Edit…")
	got, err := schedules.Get(t.Context(), "nightly")
	check.OK(t, err)
	task := got.Task
	if got.Cron != "30 2 * * *" || got.Zone != "Europe/Berlin" || got.Queue != "reports" || !got.NoOverlap ||
		got.CatchUp != schedule.SkipMissed || got.Jitter != time.Minute || task.Kind != "report" || task.Key != "acme" ||
		string(task.Payload) != "{\n\"n\": 12345678901234567890}" || task.Headers["tag"] != "blue" ||
		task.Priority != 3 || task.Delay != 10*time.Second || task.MaxAttempts != 7 {
		t.Errorf("the stored schedule is %+v", got)
	}

	s.shows(s.get(200, "/db/shop/audit", "by", "ann"), "put schedule", "nightly", "console")

	// The form of a stored schedule has all of it: saved unchanged, it changes nothing.
	page := s.get(200, "/db/shop/schedule/edit", "name", "nightly")
	form := []string{"payload", string(task.Payload), "headers", "tag: blue", "no_overlap", "yes"}
	for _, m := range regexp.MustCompile(`<input[^>]*name="([a-z_]+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if m[1] != "no_overlap" && m[1] != "json" {
			form = append(form, m[1], html.UnescapeString(m[2]))
		}
	}
	before := got.Revision
	s.post(303, "/db/shop/schedule/save", form...)
	if got, err = schedules.Get(t.Context(), "nightly"); err != nil || got.Revision != before {
		t.Errorf("saving the form unchanged makes it %+v: %v", got, err)
	}

	// An interval instead.
	s.post(303, "/db/shop/schedule/save", "name", "nightly", "revision", before, "every", "15m", "queue", "reports")
	got, err = schedules.Get(t.Context(), "nightly")
	if err != nil || got.Every != 15*time.Minute || got.Cron != "" || got.Task.Payload != nil || got.CatchUp != 0 {
		t.Errorf("the edited schedule is %+v: %v", got, err)
	}
	s.post(303, "/db/shop/schedule/save", "name", "once", "at", "2200-01-31 08:00", "queue", "reports")
	got, err = schedules.Get(t.Context(), "once")
	if want := time.Date(2200, 1, 31, 8, 0, 0, 0, time.UTC); err != nil || !got.At.Equal(want) {
		t.Errorf("the single time is %v, want %v: %v", got.At, want, err)
	}
}

func TestScheduleFormShowsErrorsBesideFields(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	for field, form := range map[string][]string{
		"name":         {"every", "1h", "queue", "q"},
		"queue":        {"name", "s", "every", "1h"},
		"cron":         {"name", "s", "queue", "q", "cron", "99 * * * *"},
		"zone":         {"name", "s", "queue", "q", "cron", "@daily", "zone", "Mars"},
		"every":        {"name", "s", "queue", "q", "every", "soon"},
		"at":           {"name", "s", "queue", "q", "at", "2000-01-01 00:00"},
		"catch_up":     {"name", "s", "queue", "q", "every", "1h", "catch_up", "some"},
		"jitter":       {"name", "s", "queue", "q", "every", "1h", "jitter", "48h"},
		"priority":     {"name", "s", "queue", "q", "every", "1h", "priority", "-1"},
		"max_attempts": {"name", "s", "queue", "q", "every", "1h", "max_attempts", "100000000"},
		"payload":      {"name", "s", "queue", "q", "every", "1h", "json", "yes", "payload", "{typed"},
		"headers":      {"name", "s", "queue", "q", "every", "1h", "headers", "typed"},
	} {
		page := s.post(422, "/db/shop/schedule/save", form...)
		s.shows(page, `id="`+field+`-error"`, "Nothing was saved")
		s.shows(page, html.EscapeString(form[len(form)-1])) // what was typed is not lost
	}
	if all, err := schedule.New(s.client).List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("invalid forms have stored %+v: %v", all, err)
	}
	page := s.post(200, "/db/shop/schedule/save", "preview", "yes", "cron", "0 0 29 2 *")
	s.shows(page, "Next times", "29 Feb", ", 00:00:00 UTC")
	s.shows(s.post(422, "/db/shop/schedule/save", "preview", "yes", "cron", "x"), `id="cron-error"`)
}

func TestScheduleThatOthersChangedIsNotOverwritten(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.post(303, "/db/shop/schedule/save", "name", "s", "every", "1h", "queue", "q")
	mine := s.revision("s")
	s.post(303, "/db/shop/schedule/save", "name", "s", "every", "2h", "queue", "q", "revision", mine)
	page := s.post(409, "/db/shop/schedule/save", "name", "s", "every", "3h", "queue", "q", "revision", mine)
	s.shows(page, "someone has changed the schedule", `value="3h"`)
	s.shows(s.post(422, "/db/shop/schedule/save", "name", "s", "every", "3h", "queue", "q"), "exists already")
	got, err := schedule.New(s.client).Get(t.Context(), "s")
	if err != nil || got.Every != 2*time.Hour {
		t.Errorf("the schedule is %+v: %v", got, err)
	}
	s.post(303, "/db/shop/schedule/delete", "name", "s")
	to := s.post(303, "/db/shop/schedule/save", "name", "s", "every", "3h", "queue", "q", "revision", mine)
	if to != "/db/shop/schedules" {
		t.Errorf("saving a deleted schedule leads to %q", to)
	}
	if _, err := schedule.New(s.client).Get(t.Context(), "s"); err == nil {
		t.Error("the deleted schedule is back")
	}
}

func TestScheduleFormRespectsRoles(t *testing.T) {
	t.Parallel()
	client := openClient(t)
	put := func(name, queue string) {
		t.Helper()
		task := dbq.NewTask{Payload: []byte(`"planted-secret"`), Headers: map[string]string{"h": "planted-secret"}}
		d := schedule.Schedule{Name: name, Every: time.Hour, Queue: queue, Task: task}
		check.OK(t, schedule.New(client).Put(t.Context(), d))
	}
	put("mail", "mail")
	put("bills", "bills")
	viewer := serve(t, client, user{auth.Principal{Name: "bob", Role: auth.Viewer}}, "")
	viewer.hides(viewer.get(200, "/db/shop/schedules"), "New schedule")
	viewer.hides(viewer.get(200, "/db/shop/schedule", "name", "mail"), "Edit…", "Delete")
	viewer.get(403, "/db/shop/schedule/edit", "name", "mail")
	viewer.get(403, "/db/shop/schedule/edit")
	viewer.post(403, "/db/shop/schedule/save", "name", "s", "every", "1h", "queue", "mail")

	// An administrator of one queue, who sees no payloads: these stay as they are.
	one := serve(t, client, user{auth.Principal{Name: "eve", Role: auth.Admin, Queues: []string{"mail"}}}, "")
	one.post(403, "/db/shop/schedule/save", "name", "s", "every", "1h", "queue", "bills")
	one.get(404, "/db/shop/schedule/edit", "name", "bills")
	one.hides(one.get(200, "/db/shop/schedule/edit", "name", "mail"), "planted-secret")
	revision := one.revision("mail")
	one.post(403, "/db/shop/schedule/save", "name", "mail", "every", "1h", "queue", "bills", "revision", revision)
	one.post(303, "/db/shop/schedule/save", "name", "mail", "every", "2h", "queue", "mail", "revision", revision,
		"payload", "overwritten")
	got, err := schedule.New(client).Get(t.Context(), "mail")
	if err != nil || got.Every != 2*time.Hour || string(got.Task.Payload) != `"planted-secret"` ||
		got.Task.Headers["h"] != "planted-secret" {
		t.Errorf("the schedule is %+v: %v", got, err)
	}
}

func TestScheduleOfAHiddenPayloadKeepsItsQueue(t *testing.T) {
	t.Parallel()
	client := openClient(t)
	s := serveWith(t, console.Config{
		Databases: map[string]*dbq.Client{"shop": client}, Authenticator: ann,
		Redactions: []redaction.Rule{{Queue: "mail", Paths: []string{"$..card"}}},
	})
	s.post(303, "/db/shop/schedule/save", "name", "s", "every", "1h", "queue", "mail", "payload", `{"card":"planted"}`)
	s.hides(s.get(200, "/db/shop/schedule/edit", "name", "s"), "planted")
	page := s.post(422, "/db/shop/schedule/save", "name", "s", "every", "1h", "queue", "other",
		"revision", s.revision("s"))
	s.shows(page, "The queue and the kind must stay")
}

// TestScheduleShowsItsLatestRuns: its page lists the tasks of its latest times, and no others of their kind.
func TestScheduleShowsItsLatestRuns(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s, all := serve(t, db.Client, ann, ""), schedule.New(db.Client)
	for _, name := range []string{"nightly", "nightly:2"} {
		check.OK(t, all.Put(t.Context(), schedule.Schedule{
			Name: name, Every: time.Hour, Queue: "reports", Task: dbq.NewTask{Kind: "report"},
		}))
	}
	page := s.get(200, "/db/shop/schedule", "name", "nightly")
	s.hides(page, "Latest runs")
	for range 22 {
		db.Advance(time.Hour)
		db.Fire(all)
	}
	s.enqueue("reports", dbq.NewTask{Kind: "report"})
	page = s.get(200, "/db/shop/schedule", "name", "nightly")
	runs := regexp.MustCompile(`/task/([0-9a-f-]+)">Waiting</a>`).FindAllStringSubmatch(page, -1)
	if len(runs) != 20 {
		t.Fatalf("the page has %d runs, want 20: %s", len(runs), page)
	}
	stored, err := all.Get(t.Context(), "nightly")
	check.OK(t, err)
	if runs[0][1] != stored.LastTaskID.String() {
		t.Errorf("the first run is %s, want the last task %s", runs[0][1], stored.LastTaskID)
	}
	for _, run := range runs {
		task := s.task(dbq.Enqueued{ID: uuid.MustParse(run[1])})
		if !strings.HasPrefix(task.Reference, "schedule:nightly:20") {
			t.Errorf("a run has the reference %s", task.Reference)
		}
	}
}
