// Package browser tests the web console in Chromium. It is a module of its own, so that no application gets the
// libraries that drive a browser.
package browser

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

//go:embed testdata/axe.min.js
var axe string

// page is a tab of a browser that shows a console.
type page struct {
	t      *testing.T
	ctx    context.Context
	url    string
	client *dbq.Client
	server *httptest.Server

	task     uuid.UUID // that has an attempt and an error with a script
	workflow uuid.UUID
}

// open starts a browser on a console with sample data in SQLite, beside those of other tests.
func open(t *testing.T) *page {
	t.Helper()
	t.Parallel()
	return openAs(t, dbqtest.New(t).Client, auth.Loopback{})
}

func openAs(t *testing.T, client *dbq.Client, who auth.Authenticator) *page {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("Chromium is missing; install the package chromium")
		}
		t.Skip("Chromium is missing")
	}
	p := &page{t: t, client: client}
	p.fill()
	p.serve(console.Config{Databases: map[string]*dbq.Client{"shop": client}, Authenticator: who})

	alloc, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox)...)
	t.Cleanup(cancel)
	p.ctx, cancel = chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	err := chromedp.Do(p.ctx, watchPolicy, // the context of the first call ends with the browser
		chromedp.EmulateViewport(1280, 900)) // on a phone, some links are elsewhere
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve starts a console, and has the page's paths lead to its database shop.
func (p *page) serve(cfg console.Config) {
	p.t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	handler, err := console.New(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.server = httptest.NewServer(handler)
	p.t.Cleanup(p.server.Close)
	p.url = p.server.URL + "/db/shop/"
}

const evil = `<script>document.title = "script ran"</script><img src=x onerror="document.title='script ran'">`

// fill adds what each page shows.
func (p *page) fill() {
	ctx := p.t.Context()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	mail := p.client.Queue("mail")
	var tasks []dbq.NewTask
	for i := range 60 {
		tasks = append(tasks, dbq.NewTask{Kind: "welcome", Key: "acme", Payload: fmt.Appendf(nil, `{"user":%d}`, i)})
	}
	_, err := mail.EnqueueMany(ctx, tasks)
	must(err)
	_, err = p.client.Queue("bills").EnqueueMany(ctx, []dbq.NewTask{{Kind: evil, Reference: evil, Key: evil,
		Payload: []byte(evil), Headers: map[string]string{evil: evil}}})
	must(err)
	leased, err := p.client.Queue("bills").Checkout(ctx, 1, time.Minute)
	must(err)
	p.task = leased[0].ID
	must(p.client.Queue("bills").Settle(ctx, leased[0].Lease, dbq.Poisoned(errors.New(evil))))
	must(admin.New(p.client).PauseQueue(ctx, "reports", admin.By("ann"), admin.Reason("month end")))
	must(schedule.New(p.client).Put(ctx, schedule.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Queue: "reports", Task: dbq.NewTask{Kind: "report"},
	}))
	kind := dbq.Kind[int]{Name: "step", Queue: "orders"}
	w, err := workflow.Enqueue(ctx, p.client, []workflow.Step{
		workflow.NewStep("charge", kind, 1), workflow.NewStep("ship", kind, 1, "charge"),
	})
	must(err)
	p.workflow = w.ID
	idle := control.Worker{ID: idleWorker, Queue: "mail", State: control.WorkerRunning, Started: time.Now()}
	must(access.Of(p.client).Control.Announce(ctx, idle, time.Hour))
}

// idleWorker is the id of a worker that is registered and does nothing.
const idleWorker = "host-7/mail/idle"

// stepTime bounds each call of do and value.
const stepTime = time.Minute

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepTime)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

func value[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepTime)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// paths are the pages.
func (p *page) paths() map[string]string {
	return map[string]string{
		"overview": "", "queue": "queue?queue=mail", "tasks": "tasks", "task": "task/" + p.task.String(),
		"confirm": "task/" + p.task.String() + "/purge", "bulk": "bulk?queue=mail&event=cancel",
		"enqueue": "enqueue?from=" + p.task.String(), "schedules": "schedules", "schedule": "schedule?name=nightly",
		"server": "server", "keys": "keys?queue=mail", "poison": "poison", "poison of a queue": "poison?queue=bills",
		"search": "tasks?queue=bills&state=POISON&error=script", "new schedule": "schedule/edit",
		"edit schedule": "schedule/edit?name=nightly",
		"workers":       "workers", "workflow": "workflow/" + p.workflow.String(), "audit": "audit", "missing": "nothing",
		"stop worker": "workers/stop?worker=" + idleWorker, "jump": "jump?q=mial",
		"workflows": "workflows", "cancel workflow": "workflow/" + p.workflow.String() + "/cancel",
	}
}

func TestPagesAreCleanAndAccessible(t *testing.T) {
	p := open(t)
	for name, path := range p.paths() {
		p.do(chromedp.Navigate(p.url + path))
		if title := value[string](p, "document.title"); strings.Contains(title, "script ran") {
			t.Errorf("%s: a script of the task ran", name)
		}
		for _, look := range looks {
			p.do(scheme(look.colors), chromedp.EmulateViewport(look.width, 820))
			p.clean(name + "-" + look.name)
		}
	}
}

// looks are the themes and widths in which pages are looked at.
var looks = []struct {
	name, colors string
	width        int64
}{
	{"light", "light", 1080}, {"dark", "dark", 1080}, {"phone", "light", phone}, {"phone-dark", "dark", phone},
}

// phone is the width of the narrowest phones in use.
const phone = 360

// clean fails if the page violates its policy, or axe finds a violation.
func (p *page) clean(name string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](axe + "; undefined"))
	for _, v := range value[[]string](p, `axe.run().then(r => r.violations
		.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" ")))`) {
		p.t.Errorf("%s: %s", name, v)
	}
	if v := value[[]string](p, "violations"); len(v) > 0 {
		p.t.Errorf("%s violates its policy: %v", name, v)
	}
}

func TestOverviewRefreshesItself(t *testing.T) {
	p := open(t)
	p.do(chromedp.Navigate(p.url), chromedp.Evaluate[chromedp.Void]("window.same = true; undefined"))
	if _, err := p.client.Queue("fresh").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.WaitVisible(chromedp.CSS(`a[href*="queue=fresh"]`)))
	if !value[bool](p, "window.same === true") {
		t.Error("the page was loaded again")
	}
	if text := value[string](p, `document.querySelector("#read time").textContent`); strings.Contains(text, "UTC") {
		t.Errorf("the time %q is not local", text)
	}
}

func TestKeys(t *testing.T) {
	p := open(t)
	p.do(chromedp.Navigate(p.url), chromedp.KeyEvent("gt"), chromedp.WaitVisible(chromedp.CSS(".filter")),
		chromedp.KeyEvent("jj"))
	if !value[bool](p, `document.activeElement === document.querySelectorAll(".rows tbody tr")[1].querySelector("a")`) {
		t.Error("j does not move to the next row")
	}
	p.do(chromedp.KeyEvent("/"))
	if !value[bool](p, `document.activeElement === document.querySelector("[data-search]")`) {
		t.Error("/ does not go to the search")
	}
	p.do(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur(); undefined"), chromedp.KeyEvent("?"),
		chromedp.WaitVisible(chromedp.CSS("#keys")))
}

// TestShortcutsAreTurnedOff: keys without Ctrl then do nothing, as for people who dictate.
func TestShortcutsAreTurnedOff(t *testing.T) {
	p := open(t)
	const choice = `[name="shortcuts"]`
	p.do(chromedp.Navigate(p.url))
	p.follow(choice)
	p.do(chromedp.KeyEvent("?gt/"))
	if value[bool](p, `document.getElementById("keys").open || document.activeElement?.name === "q"`) {
		t.Error("a key has an effect")
	}
	p.do(chromedp.Evaluate[chromedp.Void](
		`document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true })); undefined`))
	if !value[bool](p, `document.activeElement.name === "q" && location.pathname === "/db/shop/"`) {
		t.Error("Ctrl-K does not go to the search, or g and t have left the page")
	}
	p.follow(choice)
	p.do(chromedp.KeyEvent("?"), chromedp.WaitVisible(chromedp.CSS("#keys")))
}

// changes matches the paths of the pages that ask before a change, and of the forms.
const changes = `window.changes = new RegExp("/(reenqueue|cancel|finish|purge|reject|revoke|restore|quarantine|retry|` +
	`bulk|workers/stop|schedule/edit|enqueue)$")`

// viewer authenticates everyone as a user who may only read.
type viewer struct{}

func (viewer) Authenticate(*http.Request) (auth.Principal, error) {
	return auth.Principal{Name: "bob", Role: auth.Viewer}, nil
}

func TestViewerFindsNothingToPress(t *testing.T) {
	onEach(t, func(t *testing.T, client *dbq.Client) {
		p := openAs(t, client, viewer{})
		for name, path := range p.paths() {
			p.do(chromedp.Navigate(p.url+path), chromedp.Evaluate[chromedp.Void](changes+"; undefined"))
			if found := value[[]string](p, `[...document.querySelectorAll("main form[method=post] button:enabled," +
				"main form[action$='/bulk'] button, main a")].filter(e => e.matches("button") || changes.test(e.pathname))
				.map(e => e.outerHTML)`); len(found) > 0 {
				t.Errorf("%s has controls that change something: %q", name, found)
			}
		}
	})
}

func TestPhoneHasNoSidewaysScrolling(t *testing.T) {
	p := open(t)
	p.do(chromedp.EmulateViewport(phone, 844, chromedp.EmulateMobile))
	for name, path := range p.paths() {
		p.do(chromedp.Navigate(p.url + path))
		if wide := value[int](p, "document.documentElement.scrollWidth") - phone; wide > 0 {
			t.Errorf("%s is %d pixels too wide", name, wide)
		}
	}
}
