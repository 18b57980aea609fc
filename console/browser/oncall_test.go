package browser

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/google/uuid"
)

// TestQuestionsOnCall counts the clicks from the overview until the page answers each question of an operator.
func TestQuestionsOnCall(t *testing.T) {
	p := open(t)
	night := p.nightOnCall()
	link := func(path string) string { return `main a[href="/db/shop/` + path + `"]` }
	for _, q := range []struct {
		question string
		clicks   []string // what is clicked, one after the other
		answers  []string
	}{
		{"why does the queue grow, and is a limit the reason", []string{link("queue?queue=webhooks")},
			[]string{"450 waiting. Starts are limited to 120 a minute: ", "to drain", "Not the reason: pause"}},
		{"what did the worker hold when it died", []string{`nav a[href="/db/shop/workers"]`},
			[]string{"1 of 4 workers stopped without notice", "img-2", night.held.String()[24:]}},
		{"what was that task", []string{`nav a[href="/db/shop/workers"]`, link("task/" + night.held.String())},
			[]string{"thumbnail", "img-2"}},
		{"what runs tonight", []string{`nav a[href="/db/shop/schedules"]`},
			[]string{"The next 24 hours", "nightly", "Every day at 02:30"}},
		{"who paused the queue, and why", []string{link("queue?queue=reports")},
			[]string{"Paused by ann", "month end"}},
		{"whose tasks are stuck", []string{link("queue?queue=ordered"), `a[href="/db/shop/keys?queue=ordered"]`},
			[]string{"acme", "1 waiting"}},
		{"why did it run twice", []string{link("queue?queue=failing"), `a[href="/db/shop/tasks?queue=failing"]`,
			link("task/" + night.twice.String())}, []string{"Failed", "connection refused", "no such user"}},
	} {
		p.do(chromedp.Navigate(p.url))
		for _, selector := range q.clicks {
			p.follow(selector)
		}
		text := value[string](p, `document.querySelector("main").innerText`)
		for _, want := range q.answers {
			if !strings.Contains(text, want) {
				t.Errorf("%s: after %d clicks, the page does not say %q:\n%s", q.question, len(q.clicks), want, text)
			}
		}
	}

	// Retry those that failed with an error since a time: two clicks on the page of the poisoned tasks.
	p.do(chromedp.Navigate(p.url + "poison?queue=failing&since=1h"))
	p.follow(`main a[href*="/bulk?"][href*="event=reenqueue"][href*="kind=receipt"]`)
	p.press(`form[action$="/bulk"] button.primary`)
	var states []dbq.State
	for _, id := range night.failed {
		task, err := p.client.Get(t.Context(), id)
		p.must(err)
		states = append(states, task.State)
	}
	for i, state := range states {
		if state != dbq.StateCreated && state != dbq.StateError {
			t.Errorf("task %d of those that failed is in %v after the retry", i, state)
		}
	}
	if task, err := p.client.Get(t.Context(), night.other); err != nil || task.State != dbq.StatePoison {
		t.Errorf("a task with another error is in %v after the retry: %v", task.State, err)
	}
}

// night has the tasks about which an operator on call asks.
type night struct {
	held, twice, other uuid.UUID
	failed             []uuid.UUID
}

// nightOnCall adds the causes of the questions.
func (p *page) nightOnCall() (n night) {
	p.t.Helper()
	ctx, ops := p.t.Context(), admin.New(p.client)
	enqueue := func(queue string, task dbq.NewTask) uuid.UUID {
		id, err := p.client.Queue(queue).Enqueue(ctx, task)
		p.must(err)
		return id
	}
	take := func(queue, worker string) dbq.Task {
		leased, err := access.ForWorker(p.client.Queue(queue), worker).Checkout(ctx, 1, time.Hour)
		p.must(err)
		if len(leased) != 1 {
			p.t.Fatalf("%d tasks of %s were due, want 1", len(leased), queue)
		}
		return leased[0]
	}
	registry := access.Of(p.client).Control
	work := func(w control.Worker, ttl time.Duration) {
		w.State, w.Started, w.Concurrency = control.WorkerRunning, time.Now(), 4
		p.must(registry.Announce(ctx, w, ttl))
	}

	p.must(ops.ConfigureLimits(ctx, "webhooks", func(l *admin.QueueLimits) {
		l.Rate = admin.Rate{Starts: 120, Per: time.Minute, Burst: 1}
	}))
	_, err := p.client.Queue("webhooks").EnqueueMany(ctx, make([]dbq.NewTask, 451))
	p.must(err)
	take("webhooks", "hooks-1")
	work(control.Worker{ID: "hooks-1", Queue: "webhooks", Holding: 1}, time.Hour)

	n.held = enqueue("images", dbq.NewTask{Kind: "thumbnail"})
	take("images", "img-2")
	work(control.Worker{ID: "img-2", Queue: "images", Holding: 1, Held: []uuid.UUID{n.held}}, time.Millisecond)

	p.must(ops.ConfigureLimits(ctx, "ordered", func(l *admin.QueueLimits) { l.Order = admin.OrderBlock }))
	enqueue("ordered", dbq.NewTask{Kind: "sync", Key: "acme"})
	enqueue("ordered", dbq.NewTask{Kind: "sync", Key: "acme"})
	take("ordered", "sync-1")
	work(control.Worker{ID: "sync-1", Queue: "ordered", Holding: 1}, time.Hour)

	fail := func(kind, text string) uuid.UUID {
		id := enqueue("failing", dbq.NewTask{Kind: kind})
		p.must(p.client.Queue("failing").Settle(ctx, take("failing", "mail-1").Lease, dbq.Poisoned(errors.New(text))))
		return id
	}
	n.twice = enqueue("failing", dbq.NewTask{Kind: "welcome"})
	failing := p.client.Queue("failing")
	p.must(failing.Settle(ctx, take("failing", "mail-1").Lease, dbq.RetryIn(0, errors.New("connection refused"))))
	p.must(failing.Settle(ctx, take("failing", "mail-1").Lease, dbq.Poisoned(errors.New("no such user"))))
	for range 9 {
		n.failed = append(n.failed, fail("receipt", "mx1: 550 no such user"))
	}
	n.other = fail("receipt", "the template is missing")
	return n
}
