package console

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/dbq-go/dbq/auth"
)

//go:embed templates static
var assets embed.FS

// pages parses the template of each page together with the layout.
func pages(prefix string) map[string]*template.Template {
	out := map[string]*template.Template{}
	files, err := fs.Glob(assets, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is constant
	}
	layout := template.Must(template.New("layout.html").Funcs(functions(prefix)).ParseFS(assets,
		"templates/layout.html", "templates/parts.html"))
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name != "layout" && name != "parts" {
			out[name] = template.Must(template.Must(layout.Clone()).ParseFS(assets, file))
		}
	}
	return out
}

// layout has the content that every page shows around its own. It writes the times of the page.
type layout struct {
	clock
	Name      string // of the page's template
	Title     string
	Prefix    string
	Theme     string // auto, light or dark
	Times     string // relative, local or utc
	Shortcuts string // on or off
	Flash     string
	User      auth.Principal
	Session   bool // the user has signed in here, and can sign out
	Databases []databaseLink
	Database  string
	Queue     string     // of the page, if any
	Queues    []queueRow // those of the database, if they are few
	Many      bool       // they are not
	Poisoned  int64      // tasks in all queues that the user may read
	Plus      string     // "+" if there may be more of them
	Lost      int        // workers of these queues that have stopped without notice
	At        time.Time
	Trouble   int // findings of the overview
	Page      any

	visit *visit
}

// databaseLink is a database that the user may choose.
type databaseLink struct {
	Name, Product string

	Server string // the product with its version
	Here   bool   // the page is about it
}

// queuesListed is how many queues the navigation lists at most.
const queuesListed = 8

// Link returns the path of a page of the layout's database.
func (l layout) Link(page string, query ...string) string { return l.visit.path(page, query...) }

// TasksLink returns the path of the list of the tasks of a selection.
func (l layout) TasksLink(s selection) string { return l.visit.path("tasks", s.fields()...) }

// SignIn returns the path of the form that signs in and leads back to this page.
func (l layout) SignIn() string { return l.visit.console.signInLink(l.visit.r) }

// With returns the path of the list of a selection in which some fields have other values: pairs of names and values,
// of which an empty one removes the field.
func (l layout) With(s selection, pairs ...string) string {
	fields := append(s.fields(), "order", s.Order)
	for i := 0; i < len(fields); i += 2 {
		for j := 0; j+1 < len(pairs); j += 2 {
			if fields[i] == pairs[j] {
				fields[i+1] = pairs[j+1]
			}
		}
	}
	return l.visit.path("tasks", fields...)
}

// May reports whether the user may apply an action to a queue of the layout's database.
func (l layout) May(action, queue string) bool {
	return l.visit.db != nil && l.visit.may(auth.Action(action), queue)
}

// MaySome reports whether the user may apply an action to at least one queue of the layout's database.
func (l layout) MaySome(action string) bool {
	return l.visit.db != nil && l.User.MaySome(auth.Action(action), l.visit.db.name)
}

// show writes a page.
func (v *visit) show(status int, page, title string, content any) {
	now := v.clock()
	l := layout{
		clock: now, Name: page, Title: title, Prefix: v.console.cfg.Prefix, Theme: v.chosen(themes), Times: now.style,
		Shortcuts: v.chosen(shortcuts), Flash: v.flash(), User: v.user, At: now.now, Page: content,
		Session: v.console.sessionToken(v.r) != "", visit: v,
	}
	for _, name := range v.console.names {
		if v.user.MaySome(auth.Read, name) {
			server := v.console.databases[name].client.Info().Server
			l.Databases = append(l.Databases, databaseLink{
				name, server.Product, server.Product + " " + server.Version, v.db != nil && v.db.name == name,
			})
		}
	}
	if v.db != nil {
		l.Database, l.Queue = v.db.name, v.named("queue")
		o := v.lastOverview()
		l.Trouble, l.Queues = o.trouble(v), o.Queues
		for _, q := range o.Queues {
			l.Poisoned += q.Poisoned()
			if q.PoisonedMore() {
				l.Plus = "+"
			}
		}
		for _, w := range o.Workers {
			if w.Dead {
				l.Lost++
			}
		}
		if l.Many = len(o.Queues) > queuesListed; l.Many {
			l.Queues = nil
		}
	}
	var out bytes.Buffer
	if err := v.console.pages[page].ExecuteTemplate(&out, "layout.html", l); err != nil {
		v.console.cfg.Logger.Error("console: the template failed", "request", v.request, "page", page, "err", err)
		http.Error(v.w, "The page failed. The server's log has the reason.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// A refresh of a page that has not changed gets no content. Browsers keep no page: it can show payloads.
	if status == http.StatusOK && v.r.Method == http.MethodGet && v.r.Header.Get("HX-Request") != "" &&
		unchanged(v.w, v.r, tagOf(out.Bytes())) {
		return
	}
	respond(v.w, v.r, status, out.Bytes(), nil)
}
