package console_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
)

func TestOverviewShowsQueuesAndWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	check.OK(t, admin.New(s.client).PauseQueue(t.Context(), "bills", admin.Reason("month end")))
	page := s.get(200, "/db/shop/")
	s.shows(page, "Queue mail has due tasks and no worker", "Queue bills is paused", "<title>(1) Overview · shop",
		"1 problem and 1 notice",
		"tasks in the archive 0, entries of the audit 1")
	if got := s.redirect("/"); got != "/db/shop/" {
		t.Errorf("the root leads to %q, want the only database", got)
	}
}

func TestOverviewIsSharedByVisitors(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.get(200, "/db/shop/")
	s.enqueue("mail", dbq.NewTask{})
	s.hides(s.get(200, "/db/shop/"), "Queue mail")
	s.shows(s.get(200, "/db/shop/queue", "queue", "mail"), `queue/pause"`) // its first task is newer than the overview
	page := s.get(200, "/db/shop/queue", "queue", "later")                 // as it may be misspelled
	s.shows(page, "Check the spelling", "Enqueue")
	s.hides(page, `queue/pause"`, "Change the")
	s.post(303, "/db/shop/enqueue", "queue", "later", "payload", "{}")
	s.shows(s.get(200, "/db/shop/"), "Queue mail", "Queue later")
	s.shows(s.get(200, "/db/shop/queue", "queue", "later"), "Change the settings", "Change the limits")
	s.hides(s.get(200, taskPath(s.enqueue("mail", dbq.NewTask{}))), "0001-01-01") // no attempt has begun
}

// TestOverviewListsQueuesInParts has more queues than a part, of which the last one by its name needs attention most.
func TestOverviewListsQueuesInParts(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	ops := admin.New(s.client)
	for i := range 119 {
		check.OK(t, ops.PauseQueue(t.Context(), fmt.Sprintf("q%03d", i)))
	}
	s.enqueue("zoo", dbq.NewTask{})
	page := s.get(200, "/db/shop/")
	_, table, _ := strings.Cut(page, "<tbody>")
	first := `<tr><th scope="row" class="at-main"><a href="/db/shop/queue?queue=zoo">`
	if !strings.HasPrefix(strings.TrimSpace(table), first) || strings.Count(table, "<tr>") != 100 {
		t.Errorf("the first part has %d queues, want 100, and first the one without a worker", strings.Count(table, "<tr>"))
	}
	s.shows(page, "1 problem and 1 notice", "119 queues are paused", `href="/db/shop/?from=100#queues" rel="next"`)
	page = s.get(200, "/db/shop/?from=100")
	if n := strings.Count(page, `<tr><th scope="row"`); n != 20 {
		t.Errorf("the second part has %d queues, want 20", n)
	}
	s.shows(page, `hx-get="/db/shop/?from=100"`, `rel="prev"`)
	page = s.get(200, "/db/shop/?name=q11")
	if n := strings.Count(page, `<tr><th scope="row"`); n != 9 { // q110 to q118
		t.Errorf("the filter finds %d queues, want 9", n)
	}
	s.shows(s.get(200, "/db/shop/?name=nothing"), "No queue has")
	s.get(200, "/db/shop/?from=99999999")
	s.get(422, "/db/shop/?from=x")
}

func TestListFiltersAndPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	var tasks []dbq.NewTask
	for range 120 {
		tasks = append(tasks, dbq.NewTask{Kind: "newsletter", Key: "acme"})
	}
	if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	s.enqueue("bills", dbq.NewTask{Kind: "invoice", Reference: "order-7"})
	s.shows(s.get(200, "/db/shop/tasks", "reference", "order-7"), "invoice")
	s.hides(s.get(200, "/db/shop/tasks", "reference", "order-7"), "newsletter")

	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	path, seen := "/db/shop/tasks?queue=mail&key=acme", 0
	for pages := 0; path != ""; pages++ {
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
		page := s.get(200, path)
		seen += strings.Count(page, ">newsletter <code")
		path = ""
		if m := next.FindStringSubmatch(page); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if seen != 120 {
		t.Errorf("the pages list %d tasks, want 120", seen)
	}
	for _, bad := range [][]string{{"state", "DONE"}, {"older", "soon"}, {"workflow", "x"}, {"older", "-1h"}} {
		s.shows(s.get(422, "/db/shop/tasks", bad...), `role="alert"`)
	}
	s.shows(s.get(200, "/db/shop/tasks", "kind", "none"), "No task matches kind none")
}

func TestTaskShowsExactlyTheActionsOfItsState(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{Payload: []byte(`{"n":12345678901234567890,"to":"a@b"}`)})
	page := s.get(200, taskPath(task))
	link := func(event string) string { return taskPath(task) + "/" + event + `"` }
	s.shows(page, "12345678901234567890", link("reject"), link("cancel"), "Edit and enqueue…")
	s.hides(page, link("reenqueue"), link("purge"), link("revoke"), link("restore"))

	s.shows(s.get(200, taskPath(task)+"/cancel"), "Reason", "Cancel the task")
	s.post(303, taskPath(task)+"/cancel", "reason", "ordered twice")
	page = s.get(200, taskPath(task))
	s.shows(page, "cancelled", "ordered twice", link("reenqueue"), link("purge"), link("restore"), "cancel by ann")
	s.hides(page, link("reject"), link("cancel"))

	// An expected conflict is a message and no error.
	if to := s.post(303, taskPath(task)+"/reject"); !strings.HasSuffix(to, taskPath(task)) {
		t.Errorf("a conflict leads to %q", to)
	}
	missing := strings.Replace(taskPath(task), task.ID.String(), "01a20b88-00ee-7427-bd1e-6b0cec7cc10b", 1)
	if to := s.post(303, missing+"/cancel"); to != "/db/shop/tasks" {
		t.Errorf("an action on a task that is gone leads to %q", to)
	}
	s.get(404, taskPath(task)+"/complete")
	s.post(303, taskPath(task)+"/purge")
	s.shows(s.get(404, taskPath(task)), "It does not exist")
}

func TestScriptsInTasksAreText(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	const evil = `"><script>alert(1)</script>`
	task := s.enqueue("mail", dbq.NewTask{
		Kind: evil, Payload: []byte(evil), Reference: evil, Key: evil, Headers: map[string]string{evil: evil},
	})
	q := s.client.Queue("mail")
	got, err := q.Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	check.OK(t, q.Settle(t.Context(), got[0].Lease, dbq.Poisoned(errors.New(evil))))
	for _, page := range []string{
		s.get(200, taskPath(task)), s.get(200, "/db/shop/tasks", "kind", evil), s.get(200, "/db/shop/tasks"),
		s.get(200, "/db/shop/enqueue", "from", task.ID.String()), s.get(422, "/db/shop/tasks", "state", evil),
	} {
		s.hides(page, "<script>alert")
		s.shows(page, "&lt;script&gt;alert")
	}
}

func TestBulkActionCountsThenChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	for range 3 {
		s.enqueue("mail", dbq.NewTask{Key: "acme"})
	}
	s.enqueue("mail", dbq.NewTask{Key: "other"})
	s.shows(s.get(200, "/db/shop/tasks", "queue", "mail", "state", "CREATED"), `value="cancel"`, "Cancel…")
	page := s.get(200, "/db/shop/bulk", "queue", "mail", "key", "acme", "event", "cancel")
	s.shows(page, "Cancel 3 tasks?", "queue mail, key acme")
	page = s.get(200, "/db/shop/bulk", "queue", "mail", "state", "CREATED", "event", "cancel")
	s.shows(page, "queue mail, state Waiting")
	page = s.get(200, "/db/shop/tasks", "state", "ERROR")
	s.shows(page, `aria-label="Remove state Failed"`, `name="state" value="ERROR"`)
	s.post(303, "/db/shop/bulk", "queue", "mail", "key", "acme", "event", "cancel", "reason", "test")
	stats, err := admin.New(s.client).StatsOf(t.Context(), "mail")
	if err != nil || stats.Cancelled != 3 {
		t.Errorf("%d tasks are cancelled, want 3: %v", stats.Cancelled, err)
	}
	s.shows(s.get(200, "/db/shop/bulk", "queue", "mail", "key", "acme", "event", "cancel"), "Nothing to cancel")
	s.get(404, "/db/shop/bulk", "event", "complete")
}

// TestBulkActionGoesPastWhatCannotChange purges parked tasks, of which a workflow still needs more than a part has.
func TestBulkActionGoesPastWhatCannotChange(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	last := workflow.Step{Name: "last", Queue: "later"}
	var steps []workflow.Step
	for i := range 2001 {
		name := fmt.Sprint(i)
		steps, last.Needs = append(steps, workflow.Step{Name: name, Queue: "mail"}), append(last.Needs, name)
	}
	if _, err := workflow.Enqueue(t.Context(), s.client, append(steps, last)); err != nil {
		t.Fatal(err)
	}
	free := s.enqueue("mail", dbq.NewTask{})
	ops := admin.New(s.client)
	if _, err := ops.OperateMany(t.Context(), admin.Reject, admin.Filter{Queue: "mail", Limit: dbq.MaxBulk}); err != nil {
		t.Fatal(err)
	}
	s.finish("/db/shop/bulk", "queue", "mail", "mark", "parked", "event", "purge")
	s.get(404, taskPath(free))
	page, err := ops.List(t.Context(), admin.Filter{Queue: "mail", Limit: dbq.MaxBulk})
	if err != nil || len(page.Tasks) != 2001 {
		t.Errorf("%d tasks are left, want the 2001 that the workflow needs: %v", len(page.Tasks), err)
	}
}

// TestWorkflowIsCancelledAsAWhole cancels more steps than a part has. In parts, the last step would become due between
// them.
func TestWorkflowIsCancelledAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	var steps []workflow.Step
	for i := range 2000 {
		steps = append(steps, workflow.Step{Name: fmt.Sprint(i), Queue: "mail"})
	}
	last := workflow.Step{Name: "last", Queue: "mail", Needs: []string{"0"}, OnFailure: workflow.IgnoreFailure}
	w, err := workflow.Enqueue(t.Context(), s.client, append(steps, last))
	check.OK(t, err)
	s.finish("/db/shop/bulk", "workflow", w.ID.String(), "event", "cancel")
	audit, err := admin.New(s.client).Audit(t.Context(), admin.AuditFilter{Action: "cancel"})
	if err != nil || len(audit.Entries) != 1 || audit.Entries[0].Changed != 2001 {
		t.Errorf("the audit has %+v, want one call that changed 2,001 tasks: %v", audit.Entries, err)
	}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// finish submits the form of an action on many tasks until it is done.
func (s *site) finish(path string, form ...string) {
	s.t.Helper()
	for range 10 {
		answer, err := s.http.Post(s.url+path, formType, strings.NewReader(encode(form, "")))
		if err != nil {
			s.t.Fatal(err)
		}
		if answer.StatusCode == http.StatusSeeOther {
			answer.Body.Close()
			return
		}
		page := s.body(200, answer, nil)
		form = nil
		for _, m := range hidden.FindAllStringSubmatch(page, -1) {
			form = append(form, m[1], m[2])
		}
	}
	s.t.Fatal("the action does not end")
}

func TestEnqueueByHandAndAsAnEditedCopy(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	to := s.post(303, "/db/shop/enqueue", "queue", "mail", "kind", "welcome", "payload", `{"to":"x"}`, "json", "yes",
		"reference", "r1", "headers", "tag: blue\ntrace: 7", "priority", "2", "delay", "1h")
	page := s.get(200, to)
	s.shows(page, "welcome", "r1", "blue", "due")
	from := strings.TrimPrefix(to, "/db/shop/task/")
	s.shows(s.get(200, "/db/shop/enqueue", "from", from), "{&#34;to&#34;:&#34;x&#34;}", "tag: blue")
	if again := s.post(303, "/db/shop/enqueue", "queue", "mail", "reference", "r1", "payload", "{}"); again != to {
		t.Errorf("the same reference leads to %q, want the existing task", again)
	}
	s.shows(s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "{", "json", "yes"), "not valid JSON")
	s.shows(s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "x", "priority", "-1"), "whole number")
	s.shows(s.post(422, "/db/shop/enqueue", "queue", "", "payload", "x"), "queue")
}

func TestQueueIsPausedAndConfigured(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	s.post(303, "/db/shop/queue/pause", "queue", "mail", "reason", "deploy")
	s.shows(s.get(200, "/db/shop/queue", "queue", "mail"), "Paused by ann", "deploy", "Resume")
	s.post(303, "/db/shop/queue/resume", "queue", "mail")
	s.post(303, "/db/shop/queue/limits", "queue", "mail", "running", "10", "rate_starts", "100", "rate_per", "1m",
		"rate_burst", "5", "key_running", "1", "key_rate_starts", "6", "key_rate_per", "30s", "key_rate_burst", "",
		"order", "block")
	s.post(303, "/db/shop/queue/settings", "queue", "mail", "concurrency", "4", "lease", "45s", "dead_letter", "alerts")
	ops := admin.New(s.client)
	l, err := ops.QueueLimits(t.Context(), "mail")
	if want := (admin.QueueLimits{Concurrency: 10, Rate: admin.Rate{Starts: 100, Per: time.Minute, Burst: 5}, PerKey: true,
		KeyConcurrency: 1, KeyRate: admin.Rate{Starts: 6, Per: 30 * time.Second, Burst: 1},
		Order: admin.OrderBlock}); err != nil || l != want {
		t.Errorf("the limits are %+v, want %+v: %v", l, want, err)
	}
	set, err := ops.QueueSettings(t.Context(), "mail")
	if err != nil || set.Concurrency != 4 || set.Lease != 45*time.Second || set.DeadLetter != "alerts" {
		t.Errorf("the settings are %+v: %v", set, err)
	}
	s.shows(s.get(200, "/db/shop/queue", "queue", "mail"), `value="10"`, `value="45s"`)
	s.shows(s.post(422, "/db/shop/queue/limits", "queue", "mail", "running", "many"), "whole number")

	const declared, reset = "A program declares", "/db/shop/queue/limits/reset"
	s.hides(s.get(200, "/db/shop/queue", "queue", "mail"), declared)
	check.OK(t, ops.DeclareLimits(t.Context(), "mail", admin.QueueLimits{Concurrency: 77}))
	s.shows(s.get(200, "/db/shop/queue", "queue", "mail"), declared, "77", reset)
	s.post(303, reset, "queue", "mail")
	if l, err = ops.QueueLimits(t.Context(), "mail"); err != nil || l != (admin.QueueLimits{Concurrency: 77}) {
		t.Errorf("after the reset, the limits are %+v, %v", l, err)
	}
	s.hides(s.get(200, "/db/shop/queue", "queue", "mail"), declared)
}

func TestServerPageShowsTheConformanceReport(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	info := s.client.Info()
	page := html.UnescapeString(s.get(200, "/db/shop/server"))
	s.shows(page, info.Server.Product+" "+info.Server.Version, "laws passed and none failed",
		"dbq conform", "Transitions", "<code>"+string(info.Strategy)+"</code>")
}

func TestSchedulesWorkflowsWorkersAndAuditHavePages(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	err := schedule.New(s.client).Put(t.Context(), schedule.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Queue: "reports", Task: dbq.NewTask{Kind: "report"},
	})
	check.OK(t, err)
	s.shows(s.get(200, "/db/shop/schedules"), "nightly", "30 2 * * *", "Europe/Berlin")
	s.shows(s.get(200, "/db/shop/schedule", "name", "nightly"), "Next times", "Run now")
	to := s.post(303, "/db/shop/schedule/run", "name", "nightly", "reason", "it was late")
	s.shows(s.get(200, to), "report")
	s.post(303, "/db/shop/schedule/pause", "name", "nightly", "reason", "holiday")
	s.shows(s.get(200, "/db/shop/schedule", "name", "nightly"), "paused", "holiday", "Resume")
	s.post(303, "/db/shop/schedule/resume", "name", "nightly", "reason", "holiday is over")
	s.post(303, "/db/shop/schedule/delete", "name", "nightly", "reason", "nobody reads it")
	s.get(404, "/db/shop/schedule", "name", "nightly")
	for _, verb := range []string{"pause", "resume", "run", "delete"} {
		if to := s.post(303, "/db/shop/schedule/"+verb, "name", "nightly"); to != "/db/shop/schedules" {
			t.Errorf("%s of a deleted schedule leads to %q", verb, to)
		}
	}

	kind := dbq.Kind[int]{Name: "step", Queue: "shop"}
	w, err := workflow.Enqueue(t.Context(), s.client, []workflow.Step{
		workflow.NewStep("charge", kind, 1), workflow.NewStep("ship", kind, 1, "charge"),
	})
	check.OK(t, err)
	path := "/db/shop/workflow/" + w.ID.String()
	s.shows(s.get(200, path), "charge", "ship", "level-2")
	s.post(303, path+"/cancel", "reason", "refunded")
	s.shows(s.get(200, path), "cancelled")
	s.shows(s.get(200, "/db/shop/workers"), "No worker has reported")
	s.shows(s.get(200, "/db/shop/audit"), "refunded", "pause schedule", "ann", "console",
		"it was late", "holiday is over", "nobody reads it")
	s.shows(s.get(200, "/db/shop/audit", "action", "nothing"), "No change matches")
}

// TestTaskHasAMenuOnlyForSeveralEvents: a menu of one event would be one click more.
func TestTaskHasAMenuOnlyForSeveralEvents(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{})
	s.shows(s.get(200, taskPath(task)), `<summary class="btn">More`)
	leased, err := s.client.Queue("mail").Checkout(t.Context(), 1, time.Minute)
	check.OK(t, err)
	check.OK(t, s.client.Queue("mail").Complete(t.Context(), leased[0].Lease, nil))
	page := s.get(200, taskPath(task))
	s.hides(page, `<summary class="btn">More`)
	s.shows(page, `<a class="btn danger" href="`+taskPath(task)+`/purge"`)
}
