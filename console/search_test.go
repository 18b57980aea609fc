package console_test

import (
	"errors"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/redaction"
)

// poison enqueues a task and ends its attempt with an error.
func (s *site) poison(queue string, t dbq.NewTask, cause string) dbq.Task {
	s.t.Helper()
	q := s.client.Queue(queue)
	task := s.enqueue(queue, t)
	leased, err := q.Checkout(s.t.Context(), 1, time.Minute)
	if err != nil || len(leased) != 1 {
		s.t.Fatal(leased, err)
	}
	if err := q.Settle(s.t.Context(), leased[0].Lease, dbq.Poisoned(errors.New(cause))); err != nil {
		s.t.Fatal(err)
	}
	return task
}

func TestTasksAreFoundByTextsOfErrorsAndPayloads(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	timeout := s.poison("mail", dbq.NewTask{Payload: []byte(`{"to":"Ann"}`)}, "Connection TIMED out")
	refused := s.poison("mail", dbq.NewTask{Payload: []byte(`{"to":"Bob"}`)}, "refused by the server")
	list := func(more ...string) string {
		return s.get(200, "/db/shop/tasks", append([]string{"queue", "mail", "state", "POISON"}, more...)...)
	}
	page := list("error", "timed out")
	s.shows(page, timeout.ID.String(), "Searched 2 tasks", "There are no more", `value="timed out"`, `value="reenqueue"`)
	s.hides(page, refused.ID.String())

	page = list("payload", `"bob"`)
	s.shows(page, refused.ID.String())
	s.hides(page, timeout.ID.String())
	s.shows(list("payload", "bob", "error", "timed"), "No task matches")
	for _, bad := range [][]string{
		{"error", "x"}, {"queue", "mail", "payload", "x"}, {"state", "POISON", "error", "x"},
		{"queue", "mail", "state", "POISON", "order", "archive", "payload", "x"},
	} {
		s.get(422, "/db/shop/tasks", bad...)
	}
}

// TestSearchIsBoundedAndGoesOn looks for the oldest of many tasks: each page reads a part, and the next one continues.
func TestSearchIsBoundedAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	tasks := []dbq.NewTask{{Payload: []byte("needle")}}
	for i := range 500 {
		tasks = append(tasks, dbq.NewTask{Payload: fmt.Append(nil, "hay ", i)})
	}
	done, err := s.client.Queue("mail").EnqueueMany(t.Context(), tasks)
	check.OK(t, err)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	searched := regexp.MustCompile(`Searched (\d+) tasks?`)
	for _, order := range []string{"", "oldest"} {
		path, sum, found := "/db/shop/tasks?queue=mail&state=CREATED&payload=needle&order="+order, 0, 0
		for range len(tasks) {
			page := s.get(200, path)
			found += strings.Count(page, `title="`+done[0].ID.String())
			m := searched.FindStringSubmatch(page)
			if m == nil {
				t.Fatalf("the page does not say how many tasks it searched: %s", page)
			}
			n, _ := strconv.Atoi(m[1])
			if sum += n; n > 200 { // a slow machine searches less in the time of a page
				t.Errorf("order %q: a page searched %d tasks, want at most 200", order, n)
			}
			if m = next.FindStringSubmatch(page); m == nil {
				break
			}
			path = html.UnescapeString(m[1])
			s.shows(page, "search further")
		}
		if found != 1 || sum != len(tasks) {
			t.Errorf("order %q: %d tasks were searched and found the task %d times, want %d and once", order, sum, found,
				len(tasks))
		}
	}
	// A full page of matches continues on the next one, too, and no task is on two pages or on none.
	path, seen := "/db/shop/tasks?queue=mail&state=CREATED&payload=hay+1", map[string]bool{}
	rows := regexp.MustCompile(`<th scope="row" class="at-main"><a href="[^"]*" title="([^"]+)"`)
	for range 10 {
		page := s.get(200, path)
		for _, m := range rows.FindAllStringSubmatch(page, -1) {
			if seen[m[1]] {
				t.Errorf("%s is on two pages", m[1])
			}
			seen[m[1]] = true
		}
		m := next.FindStringSubmatch(page)
		if m == nil {
			break
		}
		path = html.UnescapeString(m[1])
	}
	if len(seen) != 111 { // 1, 10 to 19, and 100 to 199
		t.Errorf("%d tasks were found, want 111", len(seen))
	}
}

// TestListShowsWhatAWorkerHolds filters by the worker that has the lease.
func TestListShowsWhatAWorkerHolds(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	held := s.enqueue("mail", dbq.NewTask{})
	if leased, err := s.client.Queue("mail").Checkout(t.Context(), 1, time.Hour); err != nil || len(leased) != 1 {
		t.Fatalf("%d tasks were leased: %v", len(leased), err)
	}
	waits := s.enqueue("mail", dbq.NewTask{})
	worker, _, _ := strings.Cut(s.task(dbq.Enqueued{ID: held.ID}).Holder, "#")
	for _, queue := range []string{"mail", ""} {
		page := s.get(200, "/db/shop/tasks", "queue", queue, "holder", worker)
		s.shows(page, held.ID.String())
		s.hides(page, waits.ID.String())
		s.hides(s.get(200, "/db/shop/tasks", "queue", queue, "holder", "another"), held.ID.String())
	}
}

// TestListOfFewMatchesIsBoundedAndGoesOn looks for the oldest of more tasks than one page looks at.
func TestListOfFewMatchesIsBoundedAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	rare := s.enqueue("mail", dbq.NewTask{Kind: "rare"})
	for range 11 {
		if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), make([]dbq.NewTask, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	page := s.get(200, "/db/shop/tasks", "kind", "rare")
	s.hides(page, rare.ID.String())
	s.shows(page, "Searched the tasks up to", "None of these matches kind rare")
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
	if next == nil {
		t.Fatal("the page does not go on")
	}
	page = s.get(200, html.UnescapeString(next[1]))
	s.shows(page, rare.ID.String())
	s.hides(page, "Searched the tasks", `rel="next"`)
}

// TestSearchForATextGoesOnBehindTasksOfOtherQueues looks for a text in a queue whose task is older than all that one
// page looks at.
func TestSearchForATextGoesOnBehindTasksOfOtherQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	rare := s.enqueue("rare", dbq.NewTask{Payload: []byte(`"planted"`)})
	leased, err := s.client.Queue("rare").Checkout(t.Context(), 1, time.Hour)
	if err != nil || len(leased) != 1 {
		t.Fatalf("%d tasks were leased: %v", len(leased), err)
	}
	check.OK(t, s.client.Queue("rare").Settle(t.Context(), leased[0].Lease, dbq.Completed(nil)))
	for range 11 {
		if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), make([]dbq.NewTask, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	page := s.get(200, "/db/shop/tasks", "queue", "rare", "state", "COMPLETED", "payload", "planted")
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
	if next == nil {
		t.Fatal("the page does not go on")
	}
	s.shows(s.get(200, html.UnescapeString(next[1])), rare.ID.String())
}

// TestSearchRevealsNothingHidden: what a page hides can also not be found, because a match would reveal it.
func TestSearchRevealsNothingHidden(t *testing.T) {
	t.Parallel()
	client := openClient(t)
	rules := []redaction.Rule{{Queue: "mail", Paths: []string{"$..card"}}}
	databases := map[string]*dbq.Client{"shop": client}
	s := serveWith(t, console.Config{Databases: databases, Authenticator: ann, Redactions: rules})
	task := s.poison("mail", dbq.NewTask{Payload: []byte(`{"card":"planted","to":"ann"}`)}, "planted")
	where := []string{"queue", "mail", "state", "POISON"}
	for _, field := range []string{"error", "payload"} {
		s.hides(s.get(200, "/db/shop/tasks", append(where, field, "planted")...), task.ID.String())
	}
	s.shows(s.get(200, "/db/shop/tasks", append(where, "payload", "ann")...), task.ID.String())

	bob := serve(t, client, user{auth.Principal{Name: "bob", Role: auth.Admin}}, "")
	bob.hides(bob.get(200, "/db/shop/tasks", where...), "Payload contains")
	bob.get(403, "/db/shop/tasks", append(where, "payload", "ann")...)
}
