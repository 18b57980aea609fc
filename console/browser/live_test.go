package browser

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
)

// session authenticates everyone as an administrator until it ends.
type session struct{ ended atomic.Bool }

func (s *session) Authenticate(*http.Request) (auth.Principal, error) {
	if s.ended.Load() {
		return auth.Principal{}, auth.ErrUnauthenticated
	}
	return auth.Principal{Name: "ann", Role: auth.Admin, Payloads: true}, nil
}

func TestSessionThatEndsLeavesThePage(t *testing.T) {
	t.Parallel()
	s := &session{}
	p := openAs(t, dbqtest.New(t).Client, s)
	p.do(chromedp.Navigate(p.url))
	s.ended.Store(true)
	p.do(chromedp.WaitVisible(chromedp.CSS("#ended a")))
	if got := value[int](p, `document.querySelectorAll("#live table").length`); got != 1 {
		t.Error("the page lost what it showed")
	}
	p.do(chromedp.Click(chromedp.CSS("#ended a")), chromedp.WaitVisible(chromedp.CSS("input[name=token]")))
}

func TestTroubleAppearsWithTheRefreshOfAnyPage(t *testing.T) {
	p := open(t)
	p.do(chromedp.Navigate(p.url), chromedp.Navigate(p.url+"workers"))
	before := value[string](p, `document.querySelector("#trouble .n").textContent`)
	gone := control.Worker{ID: "gone", Queue: "mail", State: control.WorkerRunning, Started: time.Now()}
	if err := access.Of(p.client).Control.Announce(t.Context(), gone, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	p.until(`document.querySelector("#trouble .n").textContent !== "` + before + `"`)
	badge := value[string](p, `document.querySelector("#trouble .n").textContent`)
	if title := value[string](p, "document.title"); !strings.HasPrefix(title, "("+badge+") ") {
		t.Errorf("the badge is %s, and the title %q", badge, title)
	}
}

func TestKeysOnTheOverview(t *testing.T) {
	p := open(t)
	p.do(chromedp.Navigate(p.url), chromedp.KeyEvent("gqj"))
	const second = `document.querySelectorAll("[data-queues] tbody tr")[1].querySelector("a")`
	if !value[bool](p, "document.activeElement === "+second) {
		t.Error("g q and j do not go to the second queue")
	}
	p.do(chromedp.KeyEvent("/"))
	if !value[bool](p, `document.activeElement.name === "q"`) {
		t.Error("/ does not go to the search")
	}
	p.do(chromedp.Navigate(p.url+"workers"), chromedp.KeyEvent("gq"), chromedp.WaitVisible(chromedp.CSS("[data-queues]")))
}
