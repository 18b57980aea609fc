package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

func (p *page) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// queueInfo returns one queue's line of the console.
func (p *page) queueInfo(name string) admin.QueueInfo {
	p.t.Helper()
	queues, err := admin.New(p.client).Queues(p.t.Context())
	p.must(err)
	for _, q := range queues {
		if q.Queue == name {
			return q
		}
	}
	return admin.QueueInfo{}
}

func TestQueueIsPausedAndConfigured(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		name := "configured-" + uuid.NewString()
		_, err := p.client.Queue(name).Enqueue(t.Context(), dbq.NewTask{})
		p.must(err)
		show := func() { p.do(chromedp.Navigate(p.url + "queue?queue=" + name)) }
		show()
		p.unfold("#pause")
		p.fillIn("reason", "a release")
		p.press(`form[action$="/queue/pause"] button`)
		if info := p.queueInfo(name); !info.Paused || info.Reason != "a release" {
			t.Errorf("the queue is %+v, want it paused", info)
		}
		p.recorded("pause queue", "a release")
		p.press(`form[action$="/queue/resume"] button`)
		if info := p.queueInfo(name); info.Paused {
			t.Errorf("the queue is %+v, want it resumed", info)
		}

		show()
		p.unfold("#edit-limits")
		p.fillIn("running", "7")
		p.fillIn("key_running", "-1")
		p.do(chromedp.Click(chromedp.CSS(`form[action$="/queue/limits"] button`)),
			chromedp.WaitVisible(chromedp.CSS("#key_running-error")))
		if got := value[string](p, `document.querySelector("#f-running").value`); got != "7" {
			t.Errorf("a refused form has %q leased tasks, want 7", got)
		}
		if value[bool](p, "'htmx' in window") { // axe needs scripts
			p.clean("refused limits")
		}
		p.fillIn("key_running", "2")
		p.press(`form[action$="/queue/limits"] button`)
		p.recorded("limit queue", "")
		show()
		p.unfold("#edit-settings")
		p.fillIn("concurrency", "3")
		p.fillIn("dead_letter", "letters")
		p.fillIn("keep_completed", "7d")
		p.fillIn("keep_poison", "long")
		p.fillIn("keep_attempts", "forever")
		for _, box := range []string{"archive", "no_statistics"} {
			p.do(chromedp.Click(input(box)))
		}
		p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=history]").value = "failures"; undefined`),
			chromedp.Click(chromedp.CSS(`form[action$="/queue/settings"] button`)),
			chromedp.WaitVisible(chromedp.CSS("#keep_poison-error")))
		p.until(`document.activeElement.name === "keep_poison"`) // the field that is refused
		p.fillIn("keep_poison", "30d")
		p.press(`form[action$="/queue/settings"] button`)
		p.recorded("configure queue", "")
		info := p.queueInfo(name)
		want := admin.QueueSettings{Concurrency: 3, DeadLetter: "letters", History: dbq.HistoryFailures, NoStatistics: true,
			Retention: dbq.Retention{Completed: 7 * 24 * time.Hour, Poison: 30 * 24 * time.Hour, Attempts: dbq.Forever,
				Archive: true}}
		if info.Limits.Concurrency != 7 || info.Limits.KeyConcurrency != 2 || info.Settings != want {
			t.Errorf("the queue is %+v, want the settings %+v", info, want)
		}

		ops, declared := admin.New(p.client), admin.QueueLimits{Concurrency: 77}
		p.must(ops.DeclareLimits(t.Context(), name, declared))
		show()
		p.press(`form[action$="/queue/limits/reset"] button`)
		if l, err := ops.QueueLimits(t.Context(), name); err != nil || l != declared {
			t.Errorf("after a reset, the limits are %+v, %v, want those that the program declares", l, err)
		}
	})
}

func (p *page) byReference(queue, reference string) dbq.Task {
	p.t.Helper()
	id, err := p.client.Queue(queue).Find(p.t.Context(), reference)
	p.must(err)
	task, err := p.client.Get(p.t.Context(), id)
	p.must(err)
	return task
}

// entries counts those of the audit.
func (p *page) entries() int {
	p.t.Helper()
	all, err := admin.New(p.client).Audit(p.t.Context(), admin.AuditFilter{Limit: 1000})
	p.must(err)
	return len(all.Entries)
}

func TestTaskIsEnqueuedByHand(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		name, before := "by-hand-"+uuid.NewString(), p.entries()
		p.do(chromedp.Navigate(p.url + "enqueue"))
		p.fillIn("queue", name)
		p.fillIn("kind", "greet")
		p.fillIn("payload", `{"n": 12345678901234567890}`)
		p.fillIn("reference", "ref "+name)
		p.fillIn("headers", "tenant: acme")
		p.press("main button.primary")
		got := p.byReference(name, "ref "+name)
		if got.Kind != "greet" || got.Headers["tenant"] != "acme" || string(got.Payload) != `{"n": 12345678901234567890}` {
			t.Errorf("the task is %+v", got)
		}
		if now := p.entries(); now != before {
			t.Errorf("enqueuing has added %d entries to the audit, want none", now-before)
		}

		p.do(chromedp.Navigate(p.url+"task/"+got.ID.String()), chromedp.Click(chromedp.CSS(`a[href*="enqueue?from="]`)),
			chromedp.WaitVisible(input("reference")))
		p.fillIn("reference", "copy "+name)
		p.press("main button.primary")
		copied := p.byReference(name, "copy "+name)
		if copied.ID == got.ID || string(copied.Payload) != string(got.Payload) || copied.Headers["tenant"] != "acme" {
			t.Errorf("the copy is %+v", copied)
		}
		if now := p.entries(); now != before {
			t.Errorf("enqueuing a copy has added %d entries to the audit, want none", now-before)
		}
	})
}

func TestScheduleIsKept(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		schedules, name := schedule.New(p.client), "weekly-"+uuid.NewString()
		get := func() schedule.Info {
			t.Helper()
			s, err := schedules.Get(t.Context(), name)
			p.must(err)
			return s
		}
		p.do(chromedp.Navigate(p.url+"schedules"), chromedp.Click(chromedp.CSS(`a[href$="schedule/edit"]`)),
			chromedp.WaitVisible(input("cron")))
		p.fillIn("name", name)
		p.fillIn("cron", "99 * * * *")
		p.fillIn("queue", "reports")
		p.do(chromedp.Click(chromedp.CSS("main button.primary")), chromedp.WaitVisible(chromedp.CSS("#cron-error")))
		p.fillIn("cron", "@weekly")
		p.follow("main button[name=preview]")
		if n := value[int](p, `document.querySelectorAll("main ol li").length`); n != 10 {
			t.Errorf("the preview shows %d times, want 10", n)
		}
		p.press("main button.primary")
		if s := get(); s.Cron != "@weekly" || string(s.Task.Payload) != "{}" {
			t.Errorf("the schedule is %+v", s)
		}
		p.put(name, "", "@weekly")

		show := func() { p.do(chromedp.Navigate(p.url + "schedule?name=" + name)) }
		show()
		if n := value[int](p, `document.querySelectorAll("main ol li").length`); n != 10 {
			t.Errorf("%d next times are shown, want 10", n)
		}
		p.unfold("#pause")
		p.fillIn("reason", "holidays")
		p.press(`form[action$="/schedule/pause"] button`)
		if s := get(); !s.Paused || s.Reason != "holidays" {
			t.Errorf("the schedule is %+v, want it paused", s)
		}
		p.recorded("pause schedule", "holidays")
		p.press(`form[action$="/schedule/resume"] button`)
		p.recorded("resume schedule", "")
		p.press(`form[action$="/schedule/run"] button`)
		p.recorded("run schedule", "")
		if s := get(); s.Paused {
			t.Errorf("the schedule is %+v, want it resumed", s)
		}
		show()
		p.do(chromedp.Click(chromedp.CSS(`a[href*="schedule/edit"]`)), chromedp.WaitVisible(input("cron")))
		p.fillIn("cron", "@daily")
		p.press("main button.primary")
		if s := get(); s.Cron != "@daily" {
			t.Errorf("the schedule is %+v, want @daily", s)
		}
		p.put(name, "@weekly", "@daily")
		show()
		p.unfold("#delete")
		p.press(`form[action$="/schedule/delete"] button.solid`)
		if _, err := schedules.Get(t.Context(), name); !errors.Is(err, dbq.ErrNotFound) {
			t.Errorf("the schedule is still there: %v", err)
		}
		p.recorded("delete schedule", "")
	})
}

// put checks that the newest entry of the audit is of a schedule that got another cron expression.
func (p *page) put(name, before, after string) {
	p.t.Helper()
	e := p.recorded("put schedule", "")
	if e.Subject != name || e.Queue != "reports" || strings.Contains(string(e.Before), "@") != (before != "") ||
		!strings.Contains(string(e.Before), before) || !strings.Contains(string(e.After), after) {
		p.t.Errorf("the audit says %s: %s, and then %s; want schedule %s with %q, and then %q",
			e.Subject, e.Before, e.After, name, before, after)
	}
}

func TestWorkflowIsCancelledAndRetried(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		ctx, kind := t.Context(), dbq.Kind[int]{Name: "step", Queue: "flow-" + uuid.NewString()}
		w, err := workflow.Enqueue(ctx, p.client, []workflow.Step{
			workflow.NewStep("charge", kind, 1), workflow.NewStep("ship", kind, 1, "charge"),
		})
		p.must(err)
		count := func(s dbq.State) int {
			page, err := admin.New(p.client).List(ctx, admin.Filter{Workflow: w.ID, States: []dbq.State{s}})
			p.must(err)
			return len(page.Tasks)
		}
		change := func(how, reason string) {
			p.do(chromedp.Navigate(p.url+"workflow/"+w.ID.String()),
				chromedp.WaitVisible(chromedp.CSS("#live svg")),
				chromedp.Click(chromedp.CSS(`.actions a[href$="/`+how+`"]`)), chromedp.WaitVisible(input("reason")))
			p.fillIn("reason", reason)
			p.press("main form.ask .actions button")
		}
		change("cancel", "stop it")
		if n := count(dbq.StatePoison); n != 2 {
			t.Errorf("%d steps are in POISON after the cancel, want 2", n)
		}
		p.recorded("cancel", "stop it")
		change("retry", "go on")
		if n := count(dbq.StateCreated); n != 2 {
			t.Errorf("%d steps are in CREATED after the retry, want 2", n)
		}
		p.recorded("reenqueue", "go on")
	})
}

func TestWorkerObeys(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		q := p.client.Queue("worked-" + uuid.NewString())
		_, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, 3))
		p.must(err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		release, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			w := worker.Worker{Queue: q, Concurrency: 3, Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return nil
			})}
			ended <- w.Run(ctx)
		}()
		find := func() (id, state string) {
			workers, err := admin.New(p.client).Workers(t.Context())
			p.must(err)
			for _, w := range workers {
				if w.Queue == q.Name() {
					return w.ID, fmt.Sprint(w.State)
				}
			}
			return "", ""
		}
		await := func(want string) (id string) {
			t.Helper()
			p.await("a worker that is "+want, func() (any, bool) {
				var state string
				id, state = find()
				return state, id != "" && strings.Contains(state, want)
			})
			return id
		}
		id := await("running")
		show := func(control string) (selector string) {
			selector = `main [aria-label="` + control + " " + id + `"]`
			p.await(selector, func() (any, bool) { // the list of workers is read every few seconds for all users together
				p.do(chromedp.Navigate(p.url + "workers"))
				return nil, value[bool](p, `document.querySelector('`+selector+`') !== null`)
			})
			return selector
		}
		p.press(show("pause"))
		await("paused")
		p.press(show("resume"))
		await("running")
		p.held(q, 3)
		p.follow(show("stop"))
		if asks := value[string](p, `document.querySelector("main").innerText`); !strings.Contains(asks,
			"Stop worker "+id+"?") || !strings.Contains(asks, "holds 3 tasks now") {
			t.Errorf("the question is %q", asks)
		}
		p.follow("main form .actions a")
		if _, got := find(); !strings.Contains(got, "running") {
			t.Errorf("the worker is %q after Back, want it running", got)
		}
		p.follow(show("stop"))
		p.fillIn("reason", "a new version")
		p.press("main form.ask .actions button")
		if e := p.recorded("stop worker", "a new version"); e.Subject != id {
			t.Errorf("the audit names %q, want %q", e.Subject, id)
		}
		close(release)
		select {
		case err := <-ended:
			p.must(err)
		case <-time.After(20 * time.Second):
			t.Error("the worker has not stopped")
		}
	})
}

// held waits until a number of a queue's tasks are in PROCESSING.
func (p *page) held(q *dbq.Queue, want int) {
	p.t.Helper()
	p.await(fmt.Sprintf("%d tasks in PROCESSING", want), func() (any, bool) {
		page, err := admin.New(p.client).List(p.t.Context(),
			admin.Filter{Queue: q.Name(), States: []dbq.State{dbq.StateProcessing}})
		p.must(err)
		return len(page.Tasks), len(page.Tasks) == want
	})
}
