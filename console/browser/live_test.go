package browser

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq/auth"
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
	s := &session{}
	p := openAs(t, s)
	p.do(chromedp.Navigate(p.url))
	s.ended.Store(true)
	p.do(chromedp.WaitVisible(chromedp.CSS("#ended a")))
	if got := value[int](p, `document.querySelectorAll("#live table").length`); got != 1 {
		t.Error("the page lost what it showed")
	}
	p.do(chromedp.Click(chromedp.CSS("#ended a")), chromedp.WaitVisible(chromedp.CSS("input[name=token]")))
}
