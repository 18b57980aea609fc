package console_test

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/redaction"
)

// TestHiddenCharactersAreShown has a payload that a browser would show as another one.
func TestHiddenCharactersAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{Payload: []byte(`{"user":"` + "\u202egpj.exe" + `"}`),
		Headers: map[string]string{"h": "\u2066x"}})
	page := s.get(200, taskPath(task))
	s.shows(page, `\u202egpj.exe`, `\u2066x`)
	s.hides(page, "\u202e", "\u2066")
	page = s.get(200, taskPath(s.enqueue("mail", dbq.NewTask{Payload: []byte("a\x1b[31mred\x00\u200f\n\tend")})))
	s.shows(page, `a\u001b[31mred\u0000\u200f`+"\n\tend")
	s.hides(page, "\x1b", "\x00", "\u200f")
	failed := s.poison("bills", dbq.NewTask{}, "no \u202e route\x1b")
	for _, path := range []string{
		taskPath(failed), "/db/shop/poison?queue=bills", "/db/shop/tasks?queue=bills&state=POISON",
	} {
		page := s.get(200, path)
		s.shows(page, `no \u202e route`)
		s.hides(page, "\u202e", "\x1b")
	}
	path, form := s.followed(s.get(200, "/db/shop/poison", "queue", "bills"), "Retry this one…")
	s.shows(s.get(200, path+encode(form, "?")), "1 task") // the shown text still selects the error
}

// TestLargePayloadIsShownInPartAndSentAsAFile has more JSON than a page shows.
func TestLargePayloadIsShownInPartAndSentAsAFile(t *testing.T) {
	t.Parallel()
	client := openClient(t)
	s := serveWith(t, console.Config{Databases: map[string]*dbq.Client{"shop": client}, Authenticator: ann,
		Redactions: []redaction.Rule{{Queue: "secrets", Paths: []string{"$..card"}}}})
	long, err := json.Marshal(strings.Split(strings.Repeat("héllo ", 20_000), " "))
	check.OK(t, err)
	task := s.enqueue("mail", dbq.NewTask{Payload: long})
	file := taskPath(task) + "/file/payload"
	page := html.UnescapeString(s.get(200, taskPath(task)))
	s.shows(page, "JSON, 1", "only the beginning is shown", "Show all", `href="`+file+`?as=text">`,
		`href="`+file+`" download`)
	answer, text := s.answer(file, "Accept-Encoding", "gzip")
	if text != string(long) || answer.Header.Get("Content-Disposition") !=
		`attachment; filename="`+task.ID.String()+`-payload.json"` || answer.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("the file has %d bytes of %d, and the header %v", len(text), len(long), answer.Header)
	}
	answer, text = s.answer(file + "?as=text")
	if text != string(long) || answer.Header.Get("Content-Disposition") != "" ||
		answer.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the text has %d bytes of %d, and the header %v", len(text), len(long), answer.Header)
	}
	bytes := s.enqueue("mail", dbq.NewTask{Payload: []byte{0xff, 0, '<'}})
	answer, _ = s.answer(taskPath(bytes) + "/file/payload?as=text")
	if answer.Header.Get("Content-Type") != "application/octet-stream" || answer.Header.Get("Content-Disposition") == "" {
		t.Errorf("bytes are sent with the header %v", answer.Header)
	}
	short := s.get(200, taskPath(bytes))
	s.shows(short, "Download")
	s.hides(short, "Show all")

	s.get(404, taskPath(task)+"/file/headers")
	hidden := s.enqueue("secrets", dbq.NewTask{Payload: []byte(`{"card":"planted","to":"ann"}`)})
	text = s.get(200, taskPath(hidden)+"/file/payload")
	s.shows(text, "ann")
	s.hides(text, "planted")
	bob := serve(t, client, user{auth.Principal{Name: "bob", Role: auth.Admin}}, "")
	bob.hides(bob.get(403, file), "héllo")
	eve := serve(t, client, user{auth.Principal{
		Name: "eve", Role: auth.Admin, Payloads: true, Queues: []string{"bills"},
	}}, "")
	eve.get(404, file)
}

// TestOperatorOfOneQueueMayEnqueue finds the form in the navigation, not only on the page of the queue.
func TestOperatorOfOneQueueMayEnqueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Operator, Queues: []string{"odd"}}}, "")
	bob.shows(bob.get(200, "/db/shop/"), `href="/db/shop/enqueue"`)
	viewer := serve(t, s.client, user{auth.Principal{Name: "eve", Role: auth.Viewer}}, "")
	viewer.hides(viewer.get(200, "/db/shop/"), `href="/db/shop/enqueue"`)
}
