package browser

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// rows are the first cells of the page's table.
func (p *page) rows() []string {
	p.t.Helper()
	return p.column(0)
}

func (p *page) column(at int) []string {
	p.t.Helper()
	return value[[]string](p, fmt.Sprintf(
		`[...document.querySelectorAll("table.rows tbody tr")].map(r => r.cells[%d].textContent.trim())`, at))
}

func TestTasksAreFilteredAndPaged(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		name := "listed-" + uuid.NewString()
		var tasks []dbq.NewTask
		for i := range 120 {
			tasks = append(tasks, dbq.NewTask{Kind: []string{"even", "odd"}[i%2], Key: fmt.Sprint("key ", i%3),
				Reference: fmt.Sprintf("%s %d", name, i), Payload: fmt.Appendf(nil, `{"number":%d}`, i)})
		}
		all, err := p.client.Queue(name).EnqueueMany(t.Context(), tasks)
		p.must(err)

		p.do(chromedp.Navigate(p.url + "tasks"))
		p.unfold("#filters")
		p.fillIn("queue", name)
		p.fillIn("kind", "odd")
		p.follow("#filters form button")
		if url := value[string](p, "location.search"); !strings.Contains(url, "queue="+name) ||
			!strings.Contains(url, "kind=odd") {
			t.Errorf("the address %q does not have the filter", url)
		}
		names := func() []string { return p.column(1) }
		newest := names()
		for value[bool](p, `document.querySelector("a[rel=next]") !== null`) {
			p.follow("a[rel=next]")
			newest = append(newest, names()...)
		}
		p.do(chromedp.Navigate(p.url + "tasks?order=oldest&kind=odd&queue=" + name))
		oldest := names()
		for value[bool](p, `document.querySelector("a[rel=next]") !== null`) {
			p.follow("a[rel=next]")
			oldest = append(oldest, names()...)
		}
		slices.Reverse(newest)
		if len(oldest) != len(all)/2 || !slices.Equal(newest, oldest) {
			t.Errorf("%d tasks are listed from the newest and %d from the oldest, want the same %d in both directions",
				len(newest), len(oldest), len(all)/2)
		}

		for filter, want := range map[string]int{
			"reference=" + name + "+7": 1, "key=key+1": 40, "state=CREATED&payload=%22number%22:11": 11,
			"older=1h": 0, "newer=1h&key=key+2": 40, "state=COMPLETED": 0,
		} {
			p.do(chromedp.Navigate(p.url + "tasks?queue=" + name + "&" + filter))
			if got := p.rows(); len(got) != want {
				t.Errorf("the filter %s shows %d tasks, want %d", filter, len(got), want)
			}
		}
		p.do(chromedp.Navigate(p.url + "tasks?queue=" + name + "&older=never"))
		if kept := value[string](p, `document.querySelector("#f-older").value`); kept != "never" {
			t.Errorf("an invalid filter is kept as %q", kept)
		}
		p.until(`document.querySelector("#older-error") !== null && document.activeElement.name === "older"`)
	})
}

func TestBulkActionsCountFirst(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		name := "bulk-" + uuid.NewString()
		q := p.client.Queue(name)
		_, err := q.EnqueueMany(t.Context(), slices.Repeat([]dbq.NewTask{{Kind: "mail"}}, 30))
		p.must(err)
		leased, err := q.Checkout(t.Context(), 12, time.Minute)
		p.must(err)
		for _, task := range leased {
			p.must(q.Settle(t.Context(), task.Lease, dbq.Poisoned(errors.New("no such address"))))
		}
		count := func(s dbq.State) int {
			page, err := admin.New(p.client).List(t.Context(), admin.Filter{Queue: name, States: []dbq.State{s}})
			p.must(err)
			return len(page.Tasks)
		}

		p.do(chromedp.Navigate(p.url + "tasks?queue=" + name + "&state=CREATED"))
		p.follow("button[value=cancel]")
		if title := value[string](p, "document.querySelector('#title').textContent"); title != "Cancel 18 tasks?" {
			t.Errorf("the preview says %q", title)
		}
		if n := count(dbq.StateCreated); n != 18 {
			t.Errorf("%d tasks are in CREATED after the preview, want 18", n)
		}
		p.fillIn("reason", "sold out")
		if says := p.press("main button.primary"); says != "18 tasks were cancelled." {
			t.Errorf("the page says %q", says)
		}
		if e := p.recorded("cancel", "sold out"); e.Changed != 18 {
			t.Errorf("the audit counts %d, want 18", e.Changed)
		}

		p.do(chromedp.Navigate(p.url + "poison?queue=" + name))
		if got := p.rows(); !slices.Equal(got, []string{"12"}) {
			t.Errorf("the poisoned tasks are grouped as %q, want 12 of one kind and error", got)
		}
		p.follow("table.rows a[href*=reenqueue]")
		p.fillIn("reason", "address found")
		if says := p.press("main button.primary"); says != "12 tasks were made due again." {
			t.Errorf("the page says %q", says)
		}
		if n := count(dbq.StateCreated); n != 12 {
			t.Errorf("%d tasks are in CREATED after the redrive, want 12", n)
		}

		p.do(chromedp.Navigate(p.url + "audit"))
		p.unfold("#filters")
		p.fillIn("queue", name)
		p.follow("main form.filters button")
		if actions := p.column(0); !slices.Equal(actions, []string{"reenqueue", "cancel"}) {
			t.Errorf("the audit of the queue lists %q", actions)
		}
		p.do(chromedp.Navigate(p.url + "audit?since=yesterday&until=2026-01-31T16:30&queue=" + name))
		got := value[[]string](p,
			`["queue", "since", "until"].map(name => document.querySelector("main [name=" + name + "]").value)`)
		if !slices.Equal(got, []string{name, "yesterday", "2026-01-31T16:30"}) {
			t.Errorf("a refused filter has %q", got)
		}
		p.do(chromedp.WaitVisible(chromedp.CSS("#since-error")))
		p.fillIn("since", "2026-01-31T16:00")
		p.follow("main form.filters button")
		if value[bool](p, `document.querySelector("#since-error") !== null`) || len(p.rows()) != 0 {
			t.Error("the corrected filter is refused, or lists changes of another time")
		}
	})
}

// TestTasksAreChosenByBoxAndKey chooses tasks of a list, and cancels them and no others.
func TestTasksAreChosenByBoxAndKey(t *testing.T) {
	p := open(t)
	says := func(want string) {
		t.Helper()
		if got := value[string](p, `document.getElementById("scope").textContent`); got != want {
			t.Errorf("the actions are for %q, want %q", got, want)
		}
	}
	const all = "All tasks of this filter, on every page:"
	p.do(chromedp.Navigate(p.url + "tasks?queue=mail"))
	says(all)
	p.do(chromedp.KeyEvent("jx"))
	says("1 chosen task:")
	offers := func(want ...string) {
		t.Helper()
		if got := value[[]string](p, `[...document.querySelectorAll('#act [name="event"]')].filter(b => !b.hidden)
			.map(b => b.value)`); !slices.Equal(got, want) {
			t.Errorf("the actions are %q, want %q", got, want)
		}
	}
	offers("cancel", "reject", "finish") // it waits
	p.do(chromedp.KeyEvent("x"))
	says(all)
	offers("reenqueue", "cancel", "reject", "revoke", "restore", "quarantine", "finish", "purge")
	p.do(chromedp.Click(chromedp.CSS("#all")))
	says("50 chosen tasks:")
	p.do(chromedp.Click(chromedp.CSS("#all")))
	says(all)
	p.do(chromedp.KeyEvent("kx"), chromedp.Click(chromedp.CSS(`tbody tr:nth-child(3) [name="task"]`)))
	says("2 chosen tasks:")
	p.clean("chosen tasks")
	p.follow(`#act [value="cancel"]`)
	if title := value[string](p, `document.querySelector("h1").textContent`); title != "Cancel 2 tasks?" {
		t.Errorf("the page asks %q", title)
	}
	if message := p.press(`form[action$="/bulk"] button.primary`); message != "2 tasks were cancelled." {
		t.Errorf("the message is %q", message)
	}
}
