package console

import (
	"html/template"
	"net/http"
	"slices"
	"time"
)

// preference is a choice of how a browser shows the pages. A cookie keeps it, so that it works without scripts.
type preference struct {
	field  string   // of the form
	cookie string   // its name without the prefix
	values []string // the first one is the default
}

var (
	themes     = preference{"theme", "dbq_theme", []string{"auto", "light", "dark"}}
	timeStyles = preference{"times", "dbq_times", []string{"relative", "local", "utc"}}
	shortcuts  = preference{"shortcuts", "dbq_shortcuts", []string{"on", "off"}} // single keys; not Esc and Ctrl-K
)

// preferenceAge is how long a browser keeps a preference, in seconds.
const preferenceAge = 365 * 24 * 60 * 60

// zoneCookie has the name of the browser's time zone, such as Europe/Berlin. A script sets it; without scripts, pages
// show UTC where they would show local times.
const zoneCookie = "dbq_zone"

// chosen returns the value of a preference.
func (v *visit) chosen(p preference) string {
	cookie, err := v.console.cookie(v.r, p.cookie)
	if err != nil || !slices.Contains(p.values, cookie.Value) {
		return p.values[0]
	}
	return cookie.Value
}

// clock returns the clock that writes the times of the visit's page.
func (v *visit) clock() clock {
	c := clock{now: time.Now().UTC(), style: v.chosen(timeStyles), zone: time.UTC}
	cookie, err := v.r.Cookie(zoneCookie)
	if err != nil || c.style == "utc" || cookie.Value == "" || cookie.Value == "Local" { // of the server
		return c
	}
	if zone, err := time.LoadLocation(cookie.Value); err == nil {
		c.zone, c.local = zone, true
	}
	return c
}

// Preferences returns the path of the forms that change a preference and lead back to this page.
func (l layout) Preferences() string {
	v, to := l.visit, "/"
	switch {
	case v.r.Method == http.MethodGet:
		to = v.r.URL.RequestURI()
	case v.db != nil:
		to = "/db/" + v.db.name + "/"
	}
	return link(v.console.cfg.Prefix+"/prefs", "to", to)
}

// Current marks the link of the navigation that leads to this page, or to the page above it.
func (l layout) Current(item string) template.HTMLAttr {
	switch {
	case l.Name == item:
		return ` aria-current="page"`
	case sections[l.Name] == item:
		return ` aria-current="true"`
	}
	return ""
}

// sections has the page of the navigation above each page that the navigation does not list.
var sections = map[string]string{
	"queue": "overview", "keys": "overview", "task": "tasks", "confirm": "tasks", "bulk": "tasks", "workflow": "workflows",
	"workflowchange": "workflows", "workerstop": "workers", "schedule": "schedules", "scheduleform": "schedules",
}

// savePreferences keeps the choices of a form, and leads back to the page that had it.
func (c *Console) savePreferences(w http.ResponseWriter, r *http.Request) {
	v := &visit{console: c, w: w, r: r}
	var origins http.CrossOriginProtection
	if origins.Check(r) != nil {
		v.showError(errForbidden)
		return
	}
	if err := readForm(w, r, maxForm); err != nil {
		v.showError(err)
		return
	}
	for _, p := range []preference{themes, timeStyles, shortcuts} {
		if value := v.form(p.field); slices.Contains(p.values, value) {
			c.setCookie(w, r, p.cookie, value, preferenceAge)
		}
	}
	http.Redirect(w, r, c.cfg.Prefix+localPath(r.FormValue("to")), http.StatusSeeOther)
}
