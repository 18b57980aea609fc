package console_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
)

func jumpTo(text string) string { return "/db/shop/jump?q=" + url.QueryEscape(text) }

// TestJumpOpensWhatIsUnique types each kind of name and id.
func TestJumpOpensWhatIsUnique(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{Reference: "order-7", Key: "duke"})
	w, err := workflow.Enqueue(t.Context(), s.client, []workflow.Step{{Name: "charge", Queue: "mail"}})
	check.OK(t, err)
	check.OK(t, access.Of(s.client).Control.Announce(t.Context(),
		control.Worker{ID: "host/mail", Queue: "mail", State: control.WorkerRunning}, time.Minute))
	check.OK(t, schedule.New(s.client).Put(t.Context(),
		schedule.Schedule{Name: "nightly", Queue: "mail", Every: time.Hour}))
	for text, want := range map[string]string{
		task.ID.String():                  taskPath(task),
		strings.ToUpper(task.ID.String()): taskPath(task),
		" " + task.ID.String() + "\n":     taskPath(task),
		w.TaskIDs[0].String():             "/db/shop/task/" + w.TaskIDs[0].String(),
		w.ID.String():                     "/db/shop/workflow/" + w.ID.String(),
		"order-7":                         taskPath(task),
		"mail":                            "/db/shop/queue?queue=mail",
		"duke":                            "/db/shop/tasks?key=duke&queue=mail",
		"host/mail":                       "/db/shop/tasks?holder=host%2Fmail&queue=mail&state=PROCESSING",
		"nightly":                         "/db/shop/schedule?name=nightly",
		"{" + task.ID.String() + "}":      taskPath(task),
		strings.ReplaceAll(w.ID.String(), "-", ""): "/db/shop/workflow/" + w.ID.String(),
	} {
		if to := s.redirect(jumpTo(text)); to != want {
			t.Errorf("%q opens %s, want %s", text, to, want)
		}
	}
	s.enqueue("later", dbq.NewTask{}) // is newer than the overview
	if to := s.redirect(jumpTo("later")); to != "/db/shop/queue?queue=later" {
		t.Errorf("a new queue opens %s", to)
	}
}

func TestJumpListsWhatIsNotUnique(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("acme", dbq.NewTask{})
	s.poison("mail", dbq.NewTask{Key: "acme"}, "refused")
	s.enqueue("mail", dbq.NewTask{Key: "acme"})
	s.enqueue("mail", dbq.NewTask{Key: "acme"})
	s.enqueue("bulk-mail", dbq.NewTask{Reference: "r1"})
	s.enqueue("bills", dbq.NewTask{Reference: "r1"})
	page := s.get(200, jumpTo("acme"))
	s.shows(page, "What is named acme", `href="/db/shop/queue?queue=acme"`,
		`href="/db/shop/tasks?key=acme&amp;queue=mail"`, "in queue mail: 2 waiting, 1 poisoned")
	s.shows(s.get(200, jumpTo("r1")), "in queue bulk-mail, CREATED", "in queue bills, CREATED")
	_, page, _ = strings.Cut(s.get(200, jumpTo("MAIL")), "<main")
	s.shows(page, `href="/db/shop/queue?queue=mail"`, `href="/db/shop/queue?queue=bulk-mail"`)
	if strings.Index(page, "queue=mail") > strings.Index(page, "queue=bulk-mail") {
		t.Error("the name that begins with the text comes after one that contains it")
	}
}

func TestJumpToNothingSuggestsNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	s.enqueue("invoices", dbq.NewTask{})
	for typed, meant := range map[string]string{
		"mial": "mail", "maail": "mail", "mal": "mail", "Mil": "mail", "invioces": "invoices", "innvoice": "invoices",
	} {
		page := s.get(404, jumpTo(typed))
		s.shows(page, "No queue named "+typed, `Did you mean <a href="/db/shop/queue?queue=`+meant+`">`+meant+"</a>?")
	}
	s.hides(s.get(404, jumpTo("webhooks")), "Did you mean")
	s.shows(s.get(404, jumpTo("01a20b88-00ee-7427-bd1e-6b0cec7cc10b")), "No task and no workflow has this id")
	s.shows(s.get(200, "/db/shop/queue", "queue", "mial"), "Check the spelling",
		`Did you mean <a href="/db/shop/queue?queue=mail`)
	for _, odd := range []string{
		"", " ", "\x00", "a\x00b", "\xff", strings.Repeat("x", 5000), "<script>alert(1)</script>", "%",
		"../..", "\u202e", "'\"--",
		"00000000-0000-0000-0000-000000000000",
	} {
		answer, err := s.http.Get(s.url + jumpTo(odd))
		check.OK(t, err)
		want := 404
		if strings.TrimSpace(odd) == "" {
			want = 200
		}
		s.hides(s.body(want, answer, nil), "<script>alert", "dbq:")
	}
}

// TestJumpNamesNothingOfOtherQueues has a user of one queue, to whom all others do not exist.
func TestJumpNamesNothingOfOtherQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{Key: "acme", Reference: "r1"})
	hidden := s.enqueue("bills", dbq.NewTask{Key: "secret-key", Reference: "secret-ref"})
	s.enqueue("bills", dbq.NewTask{Key: "acme", Reference: "r1"})
	w, err := workflow.Enqueue(t.Context(), s.client, []workflow.Step{
		{Name: "a", Queue: "mail"}, {Name: "b", Queue: "bills"},
	})
	check.OK(t, err)
	check.OK(t, access.Of(s.client).Control.Announce(t.Context(), control.Worker{ID: "secret-worker", Queue: "bills"},
		time.Minute))
	check.OK(t, schedule.New(s.client).Put(t.Context(),
		schedule.Schedule{Name: "secret-schedule", Queue: "bills", Every: time.Hour}))
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	for _, text := range []string{
		"bills", "bill", "bils", hidden.ID.String(), w.ID.String(), w.TaskIDs[1].String(), "secret-key", "secret-ref",
		"secret-worker", "secret", "secret-worke", "secret-schedule",
	} {
		page := bob.get(404, jumpTo(text))
		rest := strings.ReplaceAll(page, text, "")
		bob.hides(rest, "bills", "secret", "Did you mean", hidden.ID.String())
	}
	// What has the same name in the user's own queue is unique to this user.
	for text, want := range map[string]string{
		"acme": "/db/shop/tasks?key=acme&queue=mail", "mail": "/db/shop/queue?queue=mail",
	} {
		if to := bob.redirect(jumpTo(text)); to != want {
			t.Errorf("%q opens %s, want %s", text, to, want)
		}
	}
	if to := bob.redirect(jumpTo("r1")); !strings.HasPrefix(to, "/db/shop/task/") {
		t.Errorf("the reference opens %s, want the user's own task", to)
	}
}
