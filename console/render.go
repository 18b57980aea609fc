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

// layout has the content that every page shows around its own.
type layout struct {
	Title    string
	Prefix   string
	Flash    string
	User     auth.Principal
	Session  bool // the user has signed in here, and can sign out
	Names    []string
	Database string
	Queue    string // of the page, if any
	At       time.Time
	Trouble  int // things that the overview lists as wrong
	Page     any

	visit *visit
}

// Link returns the path of a page of the layout's database.
func (l layout) Link(page string, query ...string) string { return l.visit.path(page, query...) }

// TasksLink returns the path of the list of the tasks of a selection.
func (l layout) TasksLink(s selection) string { return l.visit.path("tasks", s.fields()...) }

// SignIn returns the path of the form that signs in and leads back to this page.
func (l layout) SignIn() string { return l.visit.console.signInLink(l.visit.r) }

// May reports whether the user may apply an action to a queue of the layout's database.
func (l layout) May(action, queue string) bool {
	return l.visit.db != nil && l.visit.may(auth.Action(action), queue)
}

// show writes a page.
func (v *visit) show(status int, page, title string, content any) {
	l := layout{
		Title: title, Prefix: v.console.cfg.Prefix, Flash: v.flash(), User: v.user, At: time.Now().UTC(), Page: content,
		Session: v.console.sessionToken(v.r) != "", visit: v,
	}
	for _, name := range v.console.names {
		if v.user.MaySome(auth.Read, name) {
			l.Names = append(l.Names, name)
		}
	}
	if v.db != nil {
		l.Database, l.Queue = v.db.name, v.named("queue")
		l.Trouble = v.lastOverview().trouble(v)
	}
	var out bytes.Buffer
	if err := v.console.pages[page].ExecuteTemplate(&out, "layout.html", l); err != nil {
		v.console.cfg.Logger.Error("console: the template failed", "request", v.request, "page", page, "err", err)
		http.Error(v.w, "The page failed. The server's log has the reason.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = out.WriteTo(v.w) // the browser may be gone
}

// staticFiles serves the style, the scripts and the icon. They change only with the program.
func staticFiles() http.Handler {
	files := http.FileServerFS(assets)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") { // no listing of a directory
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "max-age=300")
		files.ServeHTTP(w, r)
	})
}
