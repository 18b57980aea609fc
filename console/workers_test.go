package console_test

import (
	"context"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/worker"
)

func TestWorkersOverHTTPGetNoCommands(t *testing.T) {
	t.Parallel()
	c := dbqtest.New(t).Client
	for id, remote := range map[string]bool{"here": false, "http/mail/far": true} {
		w := control.Worker{ID: id, Queue: "mail", State: control.WorkerRunning, Started: time.Now(), Remote: remote}
		check.OK(t, access.Of(c).Control.Announce(t.Context(), w, time.Minute))
	}
	page := serve(t, c, ann, "").get(200, "/db/shop/workers")
	for _, text := range []string{"http/mail/far", "over HTTP", `aria-label="stop here"`} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not have %s", text)
		}
	}
	if strings.Contains(page, `aria-label="stop http/mail/far"`) {
		t.Error("the page sends commands to a worker that takes none")
	}
}

// TestStopOfAWorkerIsConfirmed runs a worker that holds two tasks, and stops it.
func TestStopOfAWorkerIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	s.enqueue("mail", dbq.NewTask{})
	running, release, ended := make(chan struct{}, 2), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // if nothing stops it
	defer cancel()
	go func() {
		w := worker.Worker{Queue: s.client.Queue("mail"), Concurrency: 2,
			Tuning: worker.Tuning{ReportInterval: 5 * time.Second},
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				running <- struct{}{}
				<-release
				return nil
			})}
		ended <- w.Run(ctx)
	}()
	<-running
	<-running
	ops := admin.New(s.client)
	var workers []admin.WorkerInfo
	for len(workers) == 0 { // it works before it is listed; ctx ends the test
		var err error
		if workers, err = ops.Workers(ctx); err != nil {
			t.Fatal(err)
		}
	}
	id := workers[0].ID
	question := "/db/shop/workers/stop?worker=" + url.QueryEscape(id)
	s.shows(html.UnescapeString(s.get(200, "/db/shop/workers")), `href="`+question+`"`)
	page := html.UnescapeString(s.get(200, question))
	s.shows(page, "Stop worker "+id+"?", ">2 tasks</a> now", `name="reason"`, `value="stop"`)

	for _, path := range []string{"/db/shop/workers/stop?worker=nobody", "/db/shop/workers/stop"} {
		if to := s.redirect(path); to != "/db/shop/workers" {
			t.Errorf("%s leads to %q", path, to)
		}
	}
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer}}, "")
	bob.get(403, question)
	bob.hides(bob.get(200, "/db/shop/workers"), "workers/stop")
	bob.post(403, "/db/shop/workers", "worker", "nobody", "command", "stop") // others do not read the lists again
	other := serve(t, s.client, user{auth.Principal{Name: "eve", Role: auth.Admin, Queues: []string{"bills"}}}, "")
	other.redirect(question)

	close(release)
	s.post(303, "/db/shop/workers", "worker", id, "command", "stop", "reason", "new version")
	check.OK(t, <-ended)
	audit, err := ops.Audit(t.Context(), admin.AuditFilter{Action: "stop worker"})
	if err != nil || len(audit.Entries) != 1 || audit.Entries[0].Subject != id ||
		audit.Entries[0].Reason != "new version" {
		t.Errorf("the audit has %+v, want one stop, by its answer: %v", audit.Entries, err)
	}
	s.post(303, "/db/shop/workers", "worker", id, "command", "stop")
}

// Kinds that a live worker has no handler for are on its row, and a finding of the overview.
func TestKindsWithoutAHandlerAreShown(t *testing.T) {
	t.Parallel()
	c := dbqtest.New(t).Client
	w := control.Worker{ID: "old", Queue: "mail", State: control.WorkerRunning, Started: time.Now(),
		NoHandler: []string{"sms"}}
	check.OK(t, access.Of(c).Control.Announce(t.Context(), w, time.Minute))
	s := serve(t, c, ann, "")
	for path, text := range map[string]string{
		"/db/shop/workers": "no handler for sms", "/db/shop/": "Workers of queue mail have no handler for sms",
	} {
		if page := s.get(200, path); !strings.Contains(page, text) {
			t.Errorf("%s does not have %q", path, text)
		}
	}
}
