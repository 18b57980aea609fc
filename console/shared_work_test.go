package console_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/workflow"
)

// TestManyQueuesAreCountedLessFar has 20 queues, which share the tasks that the overview counts.
func TestManyQueuesAreCountedLessFar(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	for i := range 19 {
		s.enqueue(fmt.Sprintf("q%d", i), dbq.NewTask{})
	}
	if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), make([]dbq.NewTask, 5001)); err != nil {
		t.Fatal(err)
	}
	s.shows(s.get(200, "/db/shop/"), ">2,500&#43;<")
	s.post(303, "/db/shop/queue/pause", "queue", "q1") // the next reading knows the number of queues
	s.shows(s.get(200, "/db/shop/"), ">2,500&#43;<")
}

// TestOverviewShowsManyQueues has more queues than one statement counts, some of which are paused or have limits, and
// then one more.
func TestOverviewShowsManyQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	for i := range 60 {
		s.enqueue(fmt.Sprintf("q%02d", i), dbq.NewTask{})
	}
	s.post(303, "/db/shop/queue/pause", "queue", "q07")
	w1 := control.Worker{ID: "w1", Queue: "q08"}
	if _, err := access.Of(s.client).Control.Report(t.Context(), w1, time.Hour); err != nil {
		t.Fatal(err)
	}
	page := s.get(200, "/db/shop/")
	s.shows(page, "Queue q07 is paused", "58 queues have due tasks and no worker", "Among them are q00, q01 and q02.")
	s.hides(page, "q0x")
	s.post(303, "/db/shop/enqueue", "queue", "q0x", "payload", "1")
	page = s.get(200, "/db/shop/")
	for i := range 60 {
		s.shows(page, fmt.Sprintf("queue=q%02d", i))
	}
	s.shows(page, "queue=q0x")
}

// TestListReadsNoOverview opens the list of tasks, which suggests the queues of the last overview.
func TestListReadsNoOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	const suggestion = `<option value="mail">`
	s.hides(s.get(200, "/db/shop/tasks"), suggestion)
	s.get(200, "/db/shop/")
	s.shows(s.get(200, "/db/shop/tasks"), suggestion)
}

// TestCommandReachesAWorkerThatHasJustStarted commands a worker that the shared overview does not have.
func TestCommandReachesAWorkerThatHasJustStarted(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.hides(s.get(200, "/db/shop/workers"), "w1")
	gets := func(want dbq.Command) {
		t.Helper()
		got, err := access.Of(s.client).Control.Report(t.Context(), control.Worker{ID: "w1", Queue: "mail"}, time.Hour)
		if err != nil || dbq.Command(got) != want {
			t.Errorf("the worker gets the command %q, want %q: %v", got, want, err)
		}
	}
	gets("")
	other := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Operator, Queues: []string{"bills"}}}, "")
	other.post(303, "/db/shop/workers", "worker", "w1", "command", "pause")
	gets("") // as if the worker did not exist
	s.post(303, "/db/shop/workers", "worker", "w1", "command", "pause")
	gets(dbq.CommandPause)
}

// TestLargeWorkflowIsShownAsCut opens a workflow of more steps than a page shows.
func TestLargeWorkflowIsShownAsCut(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	var steps []workflow.Step
	for i := range 200 {
		steps = append(steps, workflow.Step{Name: fmt.Sprintf("s%03d", i), Queue: "mail"})
	}
	whole, err := workflow.Enqueue(t.Context(), s.client, steps)
	check.OK(t, err)
	s.hides(s.get(200, "/db/shop/workflow/"+whole.ID.String()), "Only the first")
	steps = append(steps, workflow.Step{Name: "secret", Queue: "bills"})
	w, err := workflow.Enqueue(t.Context(), s.client, steps)
	check.OK(t, err)
	path, cut := "/db/shop/workflow/"+w.ID.String(), "Only the first 200 steps"
	page := s.get(200, path)
	s.shows(page, cut, "All tasks")
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	page = bob.get(403, path)
	s.shows(page, "The workflow is too large for your role") // the other steps may be in other queues
	s.hides(page, "s007", "secret", "bills")
}

// TestFormsOverwriteNoOthersChanges opens the page of a queue, changes the queue, and then submits its forms.
func TestFormsOverwriteNoOthersChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	versions := regexp.MustCompile(`name="version" value="([^"]+)"`)
	read := func() (limits, settings string) {
		found := versions.FindAllStringSubmatch(s.get(200, "/db/shop/queue", "queue", "mail"), -1)
		if len(found) != 2 {
			t.Fatalf("the page has the versions %v, want two", found)
		}
		return found[0][1], found[1][1]
	}
	limits, settings := read()
	ops := admin.New(s.client)
	check.OK(t, ops.ConfigureLimits(t.Context(), "mail", func(l *admin.QueueLimits) { l.Concurrency = 7 }))
	check.OK(t, ops.ConfigureQueue(t.Context(), "mail", func(q *admin.QueueSettings) { q.MaxCheckout = 9 }))
	trail, err := ops.Audit(t.Context(), admin.AuditFilter{})
	check.OK(t, err)
	const limitsForm, settingsForm = "/db/shop/queue/limits", "/db/shop/queue/settings"
	for path, version := range map[string]string{limitsForm: limits, settingsForm: settings} {
		if to := s.post(303, path, "queue", "mail", "version", version); !strings.Contains(to, "/queue?") {
			t.Errorf("%s leads to %s, want the page of the queue", path, to)
		}
	}
	if again, err := ops.Audit(t.Context(), admin.AuditFilter{}); err != nil || len(again.Entries) != len(trail.Entries) {
		t.Errorf("refused changes have left %d entries: %v", len(again.Entries)-len(trail.Entries), err)
	}
	limits, settings = read()
	s.post(303, limitsForm, "queue", "mail", "version", limits, "running", "8")
	s.post(303, settingsForm, "queue", "mail", "version", settings, "max_checkout", "10")
	l, err := ops.QueueLimits(t.Context(), "mail")
	if err != nil || l.Concurrency != 8 {
		t.Errorf("the limits are %+v: %v", l, err)
	}
	q, err := ops.QueueSettings(t.Context(), "mail")
	if err != nil || q.MaxCheckout != 10 {
		t.Errorf("the settings are %+v: %v", q, err)
	}
}
