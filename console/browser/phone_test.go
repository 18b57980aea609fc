package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
)

// onPhone makes the window that of a phone.
func (p *page) onPhone() {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(phone, 844, chromedp.EmulateMobile))
}

// TestPhoneOpensEveryPage: the bar at the bottom has four pages and the menu of the others, none of them cut.
func TestPhoneOpensEveryPage(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		p.onPhone()
		p.do(chromedp.Navigate(p.url))
		const bar = `[...document.querySelectorAll("nav.pages > *")].filter(e => e.getClientRects().length > 0)`
		if n := value[int](p, bar+".length"); n != 5 {
			t.Errorf("the bar has %d entries, want 5", n)
		}
		cut := value[[]string](p, bar+`.filter(e => e.scrollWidth > e.clientWidth || e.getBoundingClientRect().left < 0 ||
			e.getBoundingClientRect().right > innerWidth).map(e => e.innerText)`)
		if len(cut) > 0 {
			t.Errorf("the bar cuts %q", cut)
		}
		for _, path := range []string{"schedules", "workflows", "server", "audit", "enqueue"} {
			p.do(chromedp.Click(chromedp.CSS("nav.pages > button")),
				chromedp.WaitVisible(chromedp.CSS(`#pages a[href$="/`+path+`"]`)))
			if value[bool](p, "'htmx' in window") { // axe needs scripts
				p.clean("the menu of the pages")
			}
			p.follow(`#pages a[href$="/` + path + `"]`)
			if at := value[string](p, "location.pathname"); at != "/db/shop/"+path {
				t.Errorf("%s leads to %s", path, at)
			}
		}
	})
}

// TestPhoneListsTasksInRowsOfOneHeight has a kind that is longer than a line, and acts on a task by the menu.
func TestPhoneListsTasksInRowsOfOneHeight(t *testing.T) {
	p := open(t)
	long := dbq.NewTask{Kind: "a-kind-that-is-longer-than-a-line-of-a-phone"}
	_, err := p.client.Queue("mail").Enqueue(t.Context(), long)
	p.must(err)
	p.onPhone()
	for _, filter := range []string{"", "&state=CREATED"} {
		p.do(chromedp.Navigate(p.url + "tasks?queue=mail" + filter))
		heights := value[[]int](p, `[...new Set([...document.querySelectorAll("tbody tr")].map(r => r.offsetHeight))]`)
		if len(heights) > 1 {
			t.Errorf("with the filter %q, rows have the heights %v", filter, heights)
		}
	}
	p.do(chromedp.Click(chromedp.CSS(`tbody tr:nth-child(2) [name="task"]`)),
		chromedp.Click(chromedp.CSS(`#act button.narrow`)), chromedp.WaitVisible(chromedp.CSS(`#acts [value="cancel"]`)))
	p.clean("the menu of the actions")
	p.follow(`#acts [value="cancel"]`)
	if title := value[string](p, `document.querySelector("h1").textContent`); title != "Cancel 1 task?" {
		t.Errorf("the page asks %q", title)
	}
}

// TestPhoneShowsATaskAtOnce: its header and the head of each card leave the screen to what they are about.
func TestPhoneShowsATaskAtOnce(t *testing.T) {
	p := open(t)
	p.onPhone()
	p.do(chromedp.Navigate(p.url + "task/" + p.taskIn(dbq.StatePoison, false).String()))
	if high := value[int](p, `document.querySelector(".strip").offsetHeight`); high > 844/4 {
		t.Errorf("the header is %d pixels high, over a quarter of the screen", high)
	}
	const heads = `Math.max(...[...document.querySelectorAll(".cardhead")].map(e => e.offsetHeight))`
	if high := value[int](p, heads); high > 56 {
		t.Errorf("the head of a card is %d pixels high, over one line", high)
	}
}

// TestPhoneOpensAFindingAnywhere presses a finding beside its text.
func TestPhoneOpensAFindingAnywhere(t *testing.T) {
	p := open(t)
	p.onPhone()
	p.do(chromedp.Navigate(p.url))
	const arrow = `.finding a[href="/db/shop/poison?queue=bills"].btn`
	if name := value[string](p, `document.querySelector('`+arrow+`').getAttribute("aria-label")`); name !=
		"Read the errors: Queue bills has 1 poisoned task" {
		t.Errorf("the arrow is named %q", name)
	}
	p.do(chromedp.Evaluate[chromedp.Void](`{
		const row = document.querySelector('` + arrow + `').closest("li"), box = row.getBoundingClientRect();
		document.elementFromPoint(box.left + 20, box.bottom - 4).click(); }`))
	p.until(`location.pathname === "/db/shop/poison"`)
}
