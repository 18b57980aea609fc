package console_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/redaction"
	"github.com/dbq-go/dbq/schedule"
)

// TestPagesHideWhatRedactionsSelect opens the pages of a task with hidden values, of its copy and of its schedule.
func TestPagesHideWhatRedactionsSelect(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	c, err := console.New(console.Config{
		Databases: map[string]*dbq.Client{"shop": db.Client}, Authenticator: ann, Logger: slog.New(slog.DiscardHandler),
		Redactions: []redaction.Rule{{Queue: "mail", Paths: []string{"$..secret"}}},
	})
	check.OK(t, err)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	s := &site{t, db.Client, server.URL, http.DefaultClient}
	task := dbq.NewTask{
		Payload: []byte(`{"a":{"secret":"planted"},"b":17}`), Headers: map[string]string{"secret": "planted"},
	}
	id, err := db.Queue("mail").Enqueue(t.Context(), task)
	check.OK(t, err)
	leased, err := db.Queue("mail").Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	leased[0].Lease.Progress = []byte("planted")
	if _, err := db.Queue("mail").SettleMany(t.Context(), []dbq.Settlement{
		{Lease: leased[0].Lease, Outcome: dbq.Parked(errors.New("planted is refused"))}}); err != nil {
		t.Fatal(err)
	}
	check.OK(t, schedule.New(db.Client).Put(t.Context(), schedule.Schedule{
		Name: "night", Queue: "mail", Every: time.Hour, Task: task}))
	for _, page := range []string{"/db/shop/task/" + id.String(), "/db/shop/tasks", "/db/shop/schedule?name=night"} {
		text := s.get(200, page)
		if strings.Contains(text, "planted") {
			t.Errorf("%s shows a hidden value", page)
		}
		if page != "/db/shop/tasks" && !strings.Contains(text, "[redacted]") {
			t.Errorf("%s does not show that a value is hidden: %s", page, text)
		}
	}
	if text := s.get(422, "/db/shop/enqueue", "from", id.String()); strings.Contains(text, "planted") {
		t.Error("the form of a copy shows a hidden value")
	}
}
