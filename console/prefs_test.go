package console_test

import (
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestPreferencesAreKeptWithoutScripts chooses colors and times by the forms of a page, which then has both.
func TestPreferencesAreKeptWithoutScripts(t *testing.T) {
	t.Parallel()
	s := serve(t, dbqtest.New(t).Client, ann, "/dbq")
	jar, err := cookiejar.New(nil)
	check.OK(t, err)
	s.http.Jar = jar
	const path = "/db/shop/tasks?queue=mail"
	task := s.enqueue("mail", dbq.NewTask{})
	page := s.get(200, path)
	s.shows(page, " data-relative>", `data-times="relative"`, `action="/dbq/prefs?to=%2Fdb%2Fshop%2Ftasks%3Fqueue%3Dmail"`,
		`value="relative" aria-pressed="true"`, `value="auto" aria-pressed="true"`)
	s.hides(page, "data-theme")

	answer, err := s.http.Post(s.url+"/prefs?to=%2Fdb%2Fshop%2Ftasks%3Fqueue%3Dmail", formType,
		strings.NewReader("theme=dark"))
	s.body(303, answer, err)
	if to := answer.Header.Get("Location"); to != "/dbq"+path {
		t.Errorf("a choice leads to %q, want the page that had the form", to)
	}
	if c := answer.Cookies(); len(c) != 1 || c[0].Path != "/dbq/" || !c[0].HttpOnly ||
		c[0].SameSite != http.SameSiteStrictMode || c[0].MaxAge <= 0 {
		t.Errorf("the cookies of a choice are %v", c)
	}
	s.post(303, "/prefs", "times", "utc")
	at := task.Updated.UTC().Format("2 Jan, 15:04:05") + " UTC</time>"
	s.shows(s.get(200, path), `<html lang="en" data-theme="dark" data-times="utc"`, at, `value="dark" aria-pressed="true"`,
		`value="utc" aria-pressed="true"`)

	s.post(303, "/prefs", "times", "local", "theme", "pink")
	s.shows(s.get(200, path), `data-shortcuts="on"`, `<kbd class="scripted"`, `name="shortcuts" value="off"`)
	s.post(303, "/prefs", "shortcuts", "off")
	page = s.get(200, path)
	s.shows(page, `data-shortcuts="off"`, `name="shortcuts" value="on"`)
	s.hides(page, `<kbd class="scripted"`)
	for zone, want := range map[string]string{
		"": " UTC</time>", "Asia/Kathmandu": " local, ", "../etc/passwd": " UTC</time>", "Local": " UTC</time>",
	} {
		page := s.do(200, http.MethodGet, path, "", "Cookie", "dbq_times=local; dbq_zone="+zone)
		s.shows(page, want, `data-times="local"`)
	}
	s.shows(s.get(200, path), `data-theme="dark"`) // pink is no color of the page
}

// TestPreferencesAreOfThisSite sends the form from another site, and with addresses of others.
func TestPreferencesAreOfThisSite(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	for _, to := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "/%zz", ""} {
		if got := s.post(303, "/prefs", "theme", "dark", "to", to); got != "/" {
			t.Errorf("%q leads to %q, want /", to, got)
		}
	}
	s.do(403, http.MethodPost, "/prefs", "theme=dark", "Sec-Fetch-Site", "cross-site", "Content-Type", formType)
}

// TestNavigationMarksThePage looks for the place of each page.
func TestNavigationMarksThePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{})
	for path, want := range map[string]string{
		"/db/shop/":                  `href="/db/shop/" aria-current="page"`,
		"/db/shop/tasks":             `href="/db/shop/tasks" aria-current="page"`,
		taskPath(task):               `href="/db/shop/tasks" aria-current="true"`,
		taskPath(task) + "/cancel":   `href="/db/shop/tasks" aria-current="true"`,
		"/db/shop/queue?queue=mail":  `href="/db/shop/" aria-current="true"`,
		"/db/shop/poison?queue=mail": `href="/db/shop/poison" aria-current="page"`,
		"/db/shop/schedule/edit":     `href="/db/shop/schedules" aria-current="true"`,
		"/db/shop/audit":             `href="/db/shop/audit" aria-current="page"`,
		"/db/shop/enqueue":           `href="/db/shop/enqueue" aria-current="page"`,
	} {
		page := s.get(200, path)
		s.shows(page, want, `aria-label="You are here"`)
		header, _, _ := strings.Cut(page, "</header>")
		if n := strings.Count(header, `aria-current="page"`); n > 2 { // one in each navigation
			t.Errorf("%s has %d current pages", path, n)
		}
	}
}
