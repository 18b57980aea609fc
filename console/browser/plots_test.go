package browser

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/series"
)

// watchPolicy makes each later page collect its violations of the policy, from the beginning.
func watchPolicy(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
	_, err = cdp.Call(ctx, t, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `window.violations = [];
			document.addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective))`,
	})
	return none, err
}

// scheme chooses the color scheme, "light" or "dark".
func scheme(name string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: name},
				{Name: "prefers-reduced-motion", Value: "reduce"}, // no color is between two others
			},
		})
		return none, err
	}
}

// report adds what a worker of the queue mail did some time ago.
func (p *page) report(ago time.Duration, c series.Counts) {
	p.t.Helper()
	c.RunTime, c.Latency = series.Histogram{0, 0, 5, 1}, series.Histogram{0, 5, 0, 0, 0, 0, 1}
	if err := access.Of(p.client).Store.AddReport(p.t.Context(), dbq.NewID().String(), series.Period{
		Queue: "mail", Since: time.Now().Add(-ago).Truncate(time.Minute).UnixMicro(), Counts: c}); err != nil {
		p.t.Fatal(err)
	}
}

// inked is an expression: how many of the plots' canvases have something drawn on them.
const inked = `[...document.querySelectorAll("figure.plot canvas")].filter(c =>
	c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(b => b !== 0)).length`

// edged is an expression: how many of them have something drawn at their left edge.
const edged = `[...document.querySelectorAll("figure.plot canvas")].filter(c =>
	c.getContext("2d").getImageData(0, 0, 1, c.height).data.some(b => b !== 0)).length`

func TestPlotsAreDrawn(t *testing.T) {
	p := open(t)
	for minute := range 50 {
		p.report(time.Duration(minute+3)*time.Minute, series.Counts{Enqueued: 70, Completed: int64(60 + minute%7), Failed: 3})
	}
	for _, view := range []struct {
		name          string
		scheme        string
		width, height int64
	}{{"light", "light", 1200, 800}, {"dark phone", "dark", 390, 844}} {
		p.do(chromedp.EmulateViewport(view.width, view.height), scheme(view.scheme))
		p.do(chromedp.Navigate(p.url), chromedp.WaitVisible(chromedp.CSS("#live svg.spark")))
		for _, over := range []string{"7d", "24h", "1h"} {
			p.do(chromedp.Navigate(p.url + "queue?queue=mail"))
			p.do(chromedp.Click(chromedp.CSS(`.spans a[href*="over=` + over + `"]`)))
			p.do(chromedp.WaitVisible(chromedp.CSS(`.spans a[aria-current][href*="over=` + over + `"]`)))
			p.do(chromedp.WaitVisible(chromedp.CSS("figure.plot canvas")))
			if n := value[int](p, inked); n != 4 {
				t.Errorf("%s, %s: %d plots are drawn, want 4", view.name, over, n)
			}
			if cut := value[int](p, edged); cut > 0 {
				t.Errorf("%s, %s: %d plots cut a label at their left", view.name, over, cut)
			}
			if wide := value[int](p, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("%s, %s: the page is %d pixels too wide", view.name, over, wide)
			}
		}
		p.do(chromedp.Click(chromedp.CSS("#series summary")), chromedp.WaitVisible(chromedp.CSS("#numbers")))
		p.clean(view.name + ": queue")
	}
}

// TestPlotsFollowTheColorSchemeAndTheNumbers changes the scheme and the numbers while the page is open.
func TestPlotsFollowTheColorSchemeAndTheNumbers(t *testing.T) {
	p := open(t)
	p.report(20*time.Minute, series.Counts{Completed: 10})
	p.do(scheme("light"), chromedp.Navigate(p.url+"queue?queue=mail"),
		chromedp.WaitVisible(chromedp.CSS("figure.plot canvas")))
	const picture = `document.querySelector("figure.plot canvas").toDataURL()`
	wait := func(before string) (now string) {
		t.Helper()
		p.await("a plot that has changed", func() (any, bool) {
			now = value[string](p, picture)
			return nil, now != before
		})
		return now
	}
	light := value[string](p, picture)
	p.do(scheme("dark"))
	dark := wait(light)
	// What a refresh brings.
	p.do(chromedp.Evaluate[chromedp.Void](`{
		const numbers = document.getElementById("numbers");
		for (const row of numbers.querySelectorAll("tbody tr")) row.cells[2].dataset.v = "5000";
		numbers.dataset.read = "later";
	}`))
	wait(dark)
	p.clean("queue")
}

// TestPlotsShowAPartOfTheTime drags over a plot: all of them show that part, a refresh leaves it, and the address leads
// to it.
func TestPlotsShowAPartOfTheTime(t *testing.T) {
	p := open(t)
	for minute := range 50 {
		p.report(time.Duration(minute+3)*time.Minute, series.Counts{Completed: int64(60 + minute)})
	}
	p.do(scheme("light"), chromedp.Navigate(p.url+"queue?queue=mail"),
		chromedp.WaitVisible(chromedp.CSS("figure.plot canvas")))
	const pictures = `[...document.querySelectorAll("figure.plot canvas")].map(c => c.toDataURL())`
	whole := value[[]string](p, pictures)
	changed := func(what string, before []string, want bool) (now []string) {
		t.Helper()
		p.await(what, func() (any, bool) {
			now = value[[]string](p, pictures)
			return len(now), (now[0] != before[0]) == want && (now[2] != before[2]) == want
		})
		return now
	}
	mouse := func(events string) {
		p.do(chromedp.Evaluate[chromedp.Void](`{
			const over = document.querySelector("figure.plot .u-over"), box = over.getBoundingClientRect();
			const send = (type, x) => over.dispatchEvent(new MouseEvent(type, {
				bubbles: true, clientX: box.left + x, clientY: box.top + 50, movementX: 1 }));
			` + events + ` }`))
	}
	mouse(`send("mousedown", 60); send("mousemove", 100); send("mousemove", 160); send("mouseup", 160)`)
	part := changed("a part of the time", whole, true)
	p.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("numbers").dataset.read = "later"`))
	p.do(chromedp.Evaluate[chromedp.Void](`new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve, 50)))`,
		chromedp.EvalAwaitPromise))
	changed("the same part after a refresh", part, false)
	const zoom = `(new URLSearchParams(location.search).get("zoom") ?? "")`
	before := value[string](p, zoom)
	p.do(chromedp.Navigate(value[string](p, "location.href")), chromedp.WaitVisible(chromedp.CSS("figure.plot canvas")))
	p.until(inked + " === 4")
	if now := value[string](p, zoom); before == "" || now != before {
		t.Errorf("the address has the part %q, and %q after the page is opened by it", before, now)
	}
	part = value[[]string](p, pictures)
	mouse(`send("dblclick", 60)`)
	changed("the whole time", part, true)
	p.until(zoom + ` === ""`)
}
