package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/google/uuid"
)

func TestUserSignsInAndChoosesADatabase(t *testing.T) {
	withAndWithoutScripts(t, func(t *testing.T, p *page) {
		tokens := auth.NewTokens(p.client)
		secret, _, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann-" + uuid.NewString(), Role: auth.Admin})
		p.must(err)
		p.serve(console.Config{Authenticator: tokens, Databases: map[string]*dbq.Client{
			"shop": p.client, "log": dbqtest.New(t).Client,
		}})
		text := func() string { return value[string](p, "document.body.innerText") }

		p.do(chromedp.Navigate(p.url + "workers"))
		p.fillIn("token", "wrong")
		p.follow("main button.primary")
		if !strings.Contains(text(), "The token is not valid") {
			t.Errorf("a wrong token shows %q", text())
		}
		p.fillIn("token", secret)
		p.follow("main button.primary")
		if at := value[string](p, "location.href"); at != p.url+"workers" {
			t.Errorf("signing in leads to %s, want the page that was asked for", at)
		}
		p.follow("a.brand")
		links := value[[]string](p, `[...document.querySelectorAll("main table a")].map(a => a.textContent)`)
		if !slices.Equal(links, []string{"log", "shop"}) {
			t.Errorf("the databases are %q", links)
		}
		p.follow(`main a[href$="/db/shop/"]`)
		if at := value[string](p, "location.href"); at != p.url {
			t.Errorf("the link to the database leads to %s, want %s", at, p.url)
		}
		p.follow(`form[action$="/logout"] button`)
		p.do(chromedp.Navigate(p.url), chromedp.WaitVisible(input("token")))
	})
}
