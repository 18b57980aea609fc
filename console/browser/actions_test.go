package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// withAndWithoutScripts runs a test on each engine, as an administrator, in a browser that runs scripts and in one that
// runs none.
func withAndWithoutScripts(t *testing.T, f func(t *testing.T, p *page)) {
	onEach(t, func(t *testing.T, client *dbq.Client) {
		p := openAs(t, client, auth.Loopback{})
		f(t, p)
		p.do(func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
			_, err = cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: true})
			return none, err
		})
		p.do(chromedp.Navigate(p.url))
		if value[bool](p, "'htmx' in window") {
			t.Error("the page still runs scripts")
		}
		f(t, p)
	})
}

// input is a field of a form, by its name.
func input(name string) chromedp.CSS {
	return chromedp.CSS("main [name=" + name + "]:not([type=hidden])")
}

// unfold opens a menu or another part of a page that is folded.
func (p *page) unfold(selector string) {
	p.t.Helper()
	if !value[bool](p, fmt.Sprintf("document.querySelector(%q).open", selector)) {
		p.do(chromedp.Click(chromedp.CSS(selector + " > summary")))
	}
}

// fillIn replaces what a field has.
func (p *page) fillIn(name, text string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(input(name)), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`{ const field = document.querySelector(%q); field.focus(); field.select() }`, string(input(name)))),
		chromedp.KeyEvent(text))
}

// press presses a button or follows a link of the page, and returns the message of the next page.
func (p *page) press(selector string) (message string) {
	p.t.Helper()
	p.follow(selector)
	if message = value[string](p, `document.querySelector(".flash")?.textContent || ""`); message == "" {
		p.t.Fatalf("no page with a message follows on %s, but %q", selector, value[string](p, "document.body.innerText"))
	}
	return strings.TrimSpace(message)
}

// follow follows a link or sends a form, and waits for another page.
func (p *page) follow(selector string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](`window.followed = true; undefined`), chromedp.Click(chromedp.CSS(selector)))
	p.until(`!window.followed && document.readyState === "complete"`)
}

// until waits until an expression is true on the page or the one that follows it. It evaluates it on the page that is
// there at that moment, while chromedp.Poll fails if a page has just replaced another one.
func (p *page) until(expression string) {
	p.t.Helper()
	p.await(expression, func() (any, bool) {
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](expression))
		return err, err == nil && is
	})
}

// await waits until check reports that something is so. The other result is what check has found instead.
func (p *page) await(what string, check func() (found any, ok bool)) {
	p.t.Helper()
	var found any
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if found, ok = check(); ok {
			return
		}
	}
	p.t.Fatalf("%s is not so: %v", what, found)
}

// recorded checks that the newest entry of the audit is of an action of the console, and returns it.
func (p *page) recorded(action, reason string) admin.AuditEntry {
	p.t.Helper()
	audit, err := admin.New(p.client).Audit(p.t.Context(), admin.AuditFilter{Limit: 1})
	if err != nil || len(audit.Entries) != 1 {
		p.t.Fatalf("the audit has %d entries: %v", len(audit.Entries), err)
	}
	e := audit.Entries[0]
	if e.Action != action || e.Reason != reason || e.Program != "console" || e.Changed == 0 {
		p.t.Errorf("the audit says %+v, want %s for the reason %q", e, action, reason)
	}
	return e
}

// taskIn returns a new task in a state, the only one of its queue.
func (p *page) taskIn(s dbq.State, parked bool) uuid.UUID {
	p.t.Helper()
	ctx, q := p.t.Context(), p.client.Queue("actions-"+uuid.NewString())
	id, err := q.Enqueue(ctx, dbq.NewTask{Kind: "act", Payload: []byte(`{"n":1}`)})
	if err != nil {
		p.t.Fatal(err)
	}
	end := map[dbq.State]dbq.Outcome{dbq.StateCompleted: dbq.Completed([]byte("done")),
		dbq.StateError: dbq.RetryIn(time.Hour, errors.New("no answer")), dbq.StatePoison: dbq.Poisoned(errors.New("bad"))}
	if s != dbq.StateCreated {
		leased, err := q.Checkout(ctx, 1, time.Hour)
		if err != nil || len(leased) != 1 || leased[0].ID != id {
			p.t.Fatalf("%v was not leased, but %v: %v", id, leased, err)
		}
		if outcome, ends := end[s]; ends {
			if parked {
				outcome = dbq.Parked(errors.New("wait"))
			}
			if err := q.Settle(ctx, leased[0].Lease, outcome); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	return id
}

// TestTaskHasTheEventsOfItsState presses each event that the state table gives to operators, in each state.
func TestTaskHasTheEventsOfItsState(t *testing.T) {
	for _, s := range state.All() {
		t.Run(s.String(), func(t *testing.T) {
			withAndWithoutScripts(t, func(_ *testing.T, p *page) {
				p.hasEventsOf(s, false)
				if s == dbq.StateError {
					p.hasEventsOf(s, true)
				}
			})
		})
	}
}

// hasEventsOf applies each event that a state allows to a task of its own, and looks for the others.
func (p *page) hasEventsOf(s dbq.State, parked bool) {
	p.t.Helper()
	var want []string
	for _, e := range state.ByOperator() {
		if !e.Allows(s, parked) {
			continue
		}
		want = append(want, string(e.Event))
		p.event(e, p.taskIn(s, parked), s)
	}
	slices.Sort(want)
	p.do(chromedp.Navigate(p.url + "task/" + p.taskIn(s, parked).String()))
	got := value[[]string](p, `[...document.querySelectorAll(".strip .actions a[href*='/task/']")]
		.map(a => a.pathname.split("/").pop()).sort()`)
	if !slices.Equal(got, want) || !value[bool](p, `document.querySelector(".strip a[href*='enqueue?from=']") !== null`) {
		p.t.Errorf("%s, parked %v: the page has %q, want %q and a link to an edited copy", s, parked, got, want)
	}
}

// event applies an event to a task by its page.
func (p *page) event(e state.Transition, id uuid.UUID, from dbq.State) {
	p.t.Helper()
	reason := fmt.Sprintf("%s from %s", e.Event, from)
	link := `.actions a[href$="/` + string(e.Event) + `"]`
	p.do(chromedp.Navigate(p.url + "task/" + id.String()))
	if value[bool](p, fmt.Sprintf("document.querySelector(%q).closest('details') !== null", link)) {
		p.unfold(".strip details.menu")
	}
	p.do(chromedp.Click(chromedp.CSS(link)), chromedp.WaitVisible(input("reason")))
	p.fillIn("reason", reason)
	p.press("main form.ask .actions button")
	got, err := p.client.Get(p.t.Context(), id)
	if e.To == state.None {
		if !errors.Is(err, dbq.ErrNotFound) {
			p.t.Errorf("%s: the task is still there, in %s: %v", reason, got.State, err)
		}
	} else if err != nil || got.State != e.To {
		p.t.Errorf("%s: the task is in %s, want %s: %v", reason, got.State, e.To, err)
	}
	if entry := p.recorded(string(e.Event), reason); entry.TaskID != id {
		p.t.Errorf("%s: the audit names the task %v, want %v", reason, entry.TaskID, id)
	}
}
