package console_test

import (
	"errors"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/redaction"
	"github.com/google/uuid"
)

// followed returns the path and the fields of the link with a text.
func (s *site) followed(page, text string) (path string, form []string) {
	s.t.Helper()
	m := regexp.MustCompile(`href="([^"]+)">(?:<svg[^<]*<[^<]*</svg>)?` + regexp.QuoteMeta(text)).FindStringSubmatch(page)
	if m == nil {
		s.t.Fatalf("the page has no link %q: %s", text, page)
	}
	link, err := url.Parse(html.UnescapeString(m[1]))
	check.OK(s.t, err)
	for name, values := range link.Query() {
		form = append(form, name, values[0])
	}
	return link.Path, form
}

// TestErrorIsRetriedSinceATime retries the tasks with one error since a time: not those with another error or kind, and
// not the earlier ones.
func TestErrorIsRetriedSinceATime(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := serve(t, db.Client, ann, "")
	const refused = "dial 10.0.0.%d:25: refused\r\n  stack"
	early := s.poison("mail", dbq.NewTask{Kind: "welcome"}, fmt.Sprintf(refused, 1))
	db.Advance(3 * time.Hour)
	var late []dbq.Task
	for i := range 3 {
		late = append(late, s.poison("mail", dbq.NewTask{Kind: "welcome"}, fmt.Sprintf(refused, i)))
	}
	others := []dbq.Task{
		early, s.poison("mail", dbq.NewTask{}, fmt.Sprintf(refused, 1)),
		s.poison("mail", dbq.NewTask{Kind: "welcome"}, "dial 10.0.0.1:25: refused twice"),
	}
	s.shows(s.get(200, "/db/shop/poison", "queue", "mail"), "Retry these 4…")
	page := s.get(200, "/db/shop/poison", "queue", "mail", "since", "2h")
	s.shows(page, `value="2h"`, "Delete these 3…")
	path, form := s.followed(page, "Retry these 3…")
	s.shows(s.get(200, path+encode(form, "?")), "Retry 3 tasks?", "4 tasks were searched")
	to := s.post(303, path, append(form, "reason", "the server is back")...)
	if !strings.HasPrefix(to, "/db/shop/poison?") {
		t.Errorf("the action leads to %s, want the page that it began on", to)
	}
	for _, task := range late {
		if got := s.task(dbq.Enqueued{ID: task.ID}); got.State != dbq.StateCreated {
			t.Errorf("a task of the group is %v, want CREATED", got.State)
		}
	}
	for _, task := range others {
		if got := s.task(dbq.Enqueued{ID: task.ID}); got.State != dbq.StatePoison {
			t.Errorf("a task of no group is %v, want POISON", got.State)
		}
	}
	audit, err := admin.New(db.Client).Audit(t.Context(), admin.AuditFilter{Action: "reenqueue"})
	if err != nil || len(audit.Entries) != 1 || audit.Entries[0].Changed != 3 ||
		audit.Entries[0].Reason != "the server is back" || strings.Contains(string(audit.Entries[0].Filter), "refused") {
		t.Errorf("the audit has %+v: %v", audit.Entries, err)
	}
	s.shows(s.get(422, "/db/shop/poison", "queue", "mail", "since", "soon"), `id="since-error"`, "14:00", `value="soon"`)
	for _, since := range []string{"soon", "2999-01-01"} {
		s.get(422, "/db/shop/tasks", "since", since)
		s.post(422, "/db/shop/bulk", "event", "cancel", "since", since)
	}
}

// TestActionOnASearchGoesOn changes more tasks than one page of a search reads, and counts as far as a preview may.
func TestActionOnASearchGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	ops := admin.New(s.client)
	for range 7 {
		if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), make([]dbq.NewTask, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	reject := func(f admin.Filter, reason string) {
		t.Helper()
		_, err := ops.OperateMany(t.Context(), admin.Reject, f, admin.Reason(reason))
		check.OK(t, err)
	}
	reject(admin.Filter{Queue: "mail", Limit: 500}, "something else")
	reject(admin.Filter{Queue: "mail", Limit: dbq.MaxBulk}, "a bad address")
	form := []string{"queue", "mail", "state", "ERROR", "error", "BAD address", "event", "reenqueue"}
	page := s.get(200, "/db/shop/bulk", form...)
	s.shows(page, "Retry at least ", " tasks were searched; the action searches the others, too.")
	s.finish("/db/shop/bulk", form...)
	stats, err := ops.StatsOf(t.Context(), "mail")
	if err != nil || stats.Count[dbq.StateCreated] != 6500 || stats.Parked != 500 {
		t.Errorf("%d tasks wait and %d are parked, want 6500 and 500: %v", stats.Count[dbq.StateCreated], stats.Parked, err)
	}
	s.shows(s.get(200, "/db/shop/bulk", form...), "Nothing to retry")
}

// TestActionOnAPayload cancels the tasks whose payloads have a text, of more than one page of a search reads.
func TestActionOnAPayload(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	var tasks []dbq.NewTask
	for i := range 450 {
		tasks = append(tasks, dbq.NewTask{Payload: fmt.Appendf(nil, `{"to":"%d@%s"}`, i, []string{"a", "b", "c"}[i%3])})
	}
	if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	s.finish("/db/shop/bulk", "queue", "mail", "state", "CREATED", "payload", "@b", "event", "cancel")
	stats, err := admin.New(s.client).StatsOf(t.Context(), "mail")
	if err != nil || stats.Cancelled != 150 || stats.Count[dbq.StateCreated] != 300 {
		t.Errorf("%d tasks are cancelled and %d wait, want 150 and 300: %v", stats.Cancelled,
			stats.Count[dbq.StateCreated], err)
	}
}

// TestActionOnASearchRevealsNothing: a text that a page hides selects no task, and users who do not see texts cannot
// search for them.
func TestActionOnASearchRevealsNothing(t *testing.T) {
	t.Parallel()
	client := openClient(t)
	s := serveWith(t, console.Config{Databases: map[string]*dbq.Client{"shop": client}, Authenticator: ann,
		Redactions: []redaction.Rule{{Queue: "mail", Paths: []string{"$..card"}}}})
	s.poison("mail", dbq.NewTask{Payload: []byte(`{"card":"planted"}`)}, "planted")
	s.hides(s.get(200, "/db/shop/poison"), "planted")
	for _, field := range []string{"error", "payload", "alike"} {
		form := []string{"queue", "mail", "state", "POISON", field, "planted", "event", "purge"}
		s.shows(s.get(200, "/db/shop/bulk", form...), "Nothing to delete")
		s.finish("/db/shop/bulk", form...)
		bob := serve(t, client, user{auth.Principal{Name: "bob", Role: auth.Admin}}, "")
		bob.get(403, "/db/shop/bulk", form...)
		bob.post(403, "/db/shop/bulk", form...)
	}
	stats, err := admin.New(client).StatsOf(t.Context(), "mail")
	if err != nil || stats.Count[dbq.StatePoison] != 1 {
		t.Errorf("%d tasks are left, want 1: %v", stats.Count[dbq.StatePoison], err)
	}
	for _, bad := range [][]string{{"error", "x"}, {"queue", "mail", "alike", "x"}, {"state", "POISON", "payload", "x"}} {
		s.get(422, "/db/shop/bulk", append(bad, "event", "purge")...)
		s.post(422, "/db/shop/bulk", append(bad, "event", "purge")...)
	}
}

// TestRoleWithoutTextsRetriesAKind: the groups of a user who sees no errors are whole kinds.
func TestRoleWithoutTextsRetriesAKind(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.poison("mail", dbq.NewTask{Kind: "welcome"}, "planted")
	s.poison("mail", dbq.NewTask{Kind: "welcome"}, "another")
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Operator}}, "")
	page := bob.get(200, "/db/shop/poison", "queue", "mail")
	bob.hides(page, "planted")
	path, form := bob.followed(page, "Retry these 2…")
	bob.shows(bob.get(200, path+encode(form, "?")), "Retry 2 tasks?")
}

// TestActionOnChosenTasks changes the tasks that were chosen in the list, and no others of its filter.
func TestActionOnChosenTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	var failed []dbq.Task
	for range 3 {
		failed = append(failed, s.poison("mail", dbq.NewTask{Kind: "welcome"}, "refused"))
	}
	waits := s.enqueue("mail", dbq.NewTask{})
	other := s.poison("bills", dbq.NewTask{}, "refused")
	list := s.get(200, "/db/shop/tasks", "queue", "mail", "state", "POISON")
	s.shows(list, `name="task" value="`+failed[0].ID.String()+`" form="act"`, `<form id="act"`)
	choose := func(event string, ids ...uuid.UUID) string {
		form := url.Values{"queue": {"mail"}, "event": {event}, "reason": {"the server is back"}}
		for _, id := range ids {
			form.Add("task", id.String())
		}
		return "/db/shop/bulk?" + form.Encode()
	}
	some := choose("reenqueue", failed[0].ID, failed[1].ID, waits.ID, dbq.NewID())
	page := s.get(200, some)
	s.shows(page, "Retry 2 tasks?", "You chose ", `name="task" value="`+failed[1].ID.String()+`"`)
	s.post(303, some)
	for i, want := range []dbq.State{dbq.StateCreated, dbq.StateCreated, dbq.StatePoison} {
		if got := s.task(dbq.Enqueued{ID: failed[i].ID}); got.State != want {
			t.Errorf("task %d is %v, want %v", i, got.State, want)
		}
	}
	audit, err := admin.New(s.client).Audit(t.Context(), admin.AuditFilter{Action: "reenqueue"})
	if err != nil || len(audit.Entries) != 1 || audit.Entries[0].Changed != 2 ||
		audit.Entries[0].Reason != "the server is back" {
		t.Errorf("the audit has %+v: %v", audit.Entries, err)
	}
	s.shows(s.get(200, choose("reenqueue", failed[0].ID)), "Nothing to retry", "None of the chosen tasks")

	// For a user of one queue, those of another one do not exist.
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Admin, Queues: []string{"mail"}}}, "")
	bob.shows(bob.get(200, choose("purge", other.ID)), "Nothing to delete")
	bob.post(303, choose("purge", failed[2].ID, other.ID))
	if got := s.task(dbq.Enqueued{ID: other.ID}); got.State != dbq.StatePoison {
		t.Errorf("the task of another queue is %v", got.State)
	}
	if _, err := s.client.Get(t.Context(), failed[2].ID); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("the task of the user's queue is there: %v", err)
	}
	s.get(422, "/db/shop/bulk?event=purge&task=1")
	s.post(422, choose("purge", make([]uuid.UUID, 51)...))
}

// TestChosenCancelledTaskIsRetried: a retry of many leaves cancelled tasks out, but not one that a person chose.
func TestChosenCancelledTaskIsRetried(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{})
	check.OK(t, admin.New(s.client).Operate(t.Context(), admin.Cancel, task.ID))
	s.shows(s.get(200, "/db/shop/bulk", "queue", "mail", "event", "reenqueue"), "Nothing to retry")
	s.post(303, "/db/shop/bulk", "queue", "mail", "event", "reenqueue", "task", task.ID.String())
	if got := s.task(dbq.Enqueued{ID: task.ID}); got.State != dbq.StateCreated {
		t.Errorf("the chosen task is %v, want CREATED", got.State)
	}
}

// TestDeletionOfManyIsConfirmedByTheirNumber: the preview shows some of the tasks, and requests the number.
func TestDeletionOfManyIsConfirmedByTheirNumber(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.poison("mail", dbq.NewTask{Kind: "poisoned"}, "refused")
	if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), make([]dbq.NewTask, 101)); err != nil {
		t.Fatal(err)
	}
	filter := []string{"queue", "mail", "event", "cancel"}
	page := s.get(200, "/db/shop/bulk", filter...)
	s.shows(page, "Cancel 101 tasks?", "Some of them:")
	s.hides(page, "to confirm")
	if n := strings.Count(page, ">task <code"); n != 5 {
		t.Errorf("the preview shows %d tasks, want 5", n)
	}
	s.finish("/db/shop/bulk", filter...)

	filter[3] = "purge"
	page = s.get(200, "/db/shop/bulk", filter...)
	s.shows(page, "Type 102 to confirm", `pattern="102|102"`, `name="count" value="102"`, "poisoned <code")
	for _, typed := range []string{"", "101"} {
		s.shows(s.post(422, "/db/shop/bulk", append(filter, "count", "102", "typed", typed)...), "the number of tasks, which")
	}
	if stats, err := admin.New(s.client).StatsOf(t.Context(), "mail"); err != nil || stats.Cancelled != 101 {
		t.Errorf("%d cancelled tasks are left, want 101: %v", stats.Cancelled, err)
	}
	s.post(303, "/db/shop/bulk", append(filter, "count", "102", "typed", "102")...)
	s.shows(s.get(200, "/db/shop/bulk", filter...), "Nothing to delete")
}

// TestActionsAreInOrder: what repairs comes first and what cannot be undone last, and each row says what it allows.
func TestActionsAreInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.poison("mail", dbq.NewTask{}, "refused")
	s.enqueue("mail", dbq.NewTask{})
	for state, want := range map[string]string{
		"":       "reenqueue cancel reject revoke restore quarantine finish purge",
		"POISON": "reenqueue restore finish purge",
		"ERROR":  "reenqueue cancel quarantine finish purge",
	} {
		if state == "ERROR" { // which a list shows only with a task
			check.OK(t, admin.New(s.client).Operate(t.Context(), admin.Reject, s.enqueue("mail", dbq.NewTask{}).ID))
		}
		page, got := s.get(200, "/db/shop/tasks", "queue", "mail", "state", state), []string(nil)
		for _, m := range regexp.MustCompile(`name="event" value="([a-z]+)"`).FindAllStringSubmatch(page, -1) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of tasks in %q, the list offers %q, want %q", state, got, want)
		}
	}
	s.shows(s.get(200, "/db/shop/tasks", "queue", "mail"), `data-can="reenqueue restore finish purge"`,
		`data-can="cancel reject finish"`)
}
