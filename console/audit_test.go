package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

func TestAuditIsFilteredByTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	check.OK(t, admin.New(s.client).PauseQueue(t.Context(), "mail", admin.Reason("month end")))
	past := time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04")
	coming := time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04")
	const path, entry = "/db/shop/audit", "month end"
	s.shows(s.get(200, path, "since", past, "until", coming), entry, `name="since" value="`+past+`"`)
	s.hides(s.get(200, path, "since", coming), entry)
	s.hides(s.get(200, path, "until", past), entry)
	s.shows(s.get(200, path, "since", past+":01"), entry, `name="since" value="`+past+`:01"`)
}

// TestTimesOfTheAuditAreTypedAsTheyAreShown filters by a time of the browser's zone, and by one in UTC.
func TestTimesOfTheAuditAreTypedAsTheyAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	check.OK(t, admin.New(s.client).PauseQueue(t.Context(), "mail", admin.Reason("month end")))
	kathmandu, err := time.LoadLocation("Asia/Kathmandu") // 5 hours and 45 minutes before UTC
	check.OK(t, err)
	as := func(cookies string, until time.Time) string {
		path := "/db/shop/audit?until=" + until.Format("2006-01-02T15:04")
		return s.do(200, "GET", path, "", "Cookie", cookies)
	}
	until := time.Now().Add(time.Hour)
	s.shows(as("dbq_zone=Asia/Kathmandu", until.In(kathmandu)), "month end", ">Before</label>")
	s.hides(as("dbq_zone=Asia/Kathmandu", until.UTC()), "month end")
	s.shows(as("dbq_zone=Asia/Kathmandu; dbq_times=utc", until.UTC()), "month end", ">Before, in UTC</label>")
}

// TestRefusedFilterOfTheAuditKeepsItsInput has the message at the field that is invalid, and no entry.
func TestRefusedFilterOfTheAuditKeepsItsInput(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	check.OK(t, admin.New(s.client).PauseQueue(t.Context(), "mail", admin.Reason("month end")))
	for field, message := range map[string]string{
		"since": "Since: write a time in UTC", "until": "Until: write a time in UTC", "task": "The task is not a UUID",
	} {
		page := s.get(422, "/db/shop/audit", "queue", "mail", "action", "pause queue", "by", "ann <b>", field, "yesterday")
		s.shows(page, `role="search"`, `name="queue" value="mail"`, `value="pause queue"`, `value="ann &lt;b&gt;"`,
			`name="`+field+`" value="yesterday"`, `aria-describedby="`+field+`-error" autofocus`,
			`id="`+field+`-error" role="alert">`+message)
		s.hides(page, "month end", "No change matches", `type="datetime-local" name="`+field+`"`)
	}
	page := s.get(422, "/db/shop/audit", "since", "yesterday", "until", "2026-01-31T16:30", "task", "none")
	s.shows(page, `id="since-error"`, `name="task" value="none"`,
		`type="datetime-local" name="until" value="2026-01-31T16:30"`)
	// What only the database's side refuses is above the form.
	page = s.get(422, "/db/shop/audit", "by", strings.Repeat("x", 2000), "queue", "mail")
	s.shows(page, `autofocus>The input is invalid: `, `name="queue" value="mail"`)
	s.get(404, "/db/shop/audit", "at", "yesterday")

	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Operator}}, "")
	bob.get(403, "/db/shop/audit", "since", "yesterday")
}

// TestAuditIsInWords has durations, times and states as the other pages write them, and no names of JSON.
func TestAuditIsInWords(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	check.OK(t, admin.New(s.client).ConfigureLimits(t.Context(), "mail", func(l *admin.QueueLimits) {
		l.Rate, l.PerKey = admin.Rate{Starts: 120, Per: 90 * time.Second, Burst: 1}, true
	}))
	check.OK(t, schedule.New(s.client).Put(t.Context(), schedule.Schedule{Name: "nightly", Queue: "mail",
		Cron: "30 2 * * *"}))
	s.post(303, "/db/shop/queue/settings", "queue", "mail", "keep_poison", "forever")
	s.post(303, "/db/shop/bulk", "queue", "mail", "state", "CREATED", "event", "cancel")
	page := s.get(200, "/db/shop/audit")
	s.shows(page, `rate per</span> <ins>1m30s<`, `per key</span> <ins>yes<`, "Every day at 02:30 (30 2 * * *)",
		`keep poison</span> <ins>forever<`, `next</span> <ins><time `, "states waiting<")
	s.hides(page, "_seconds", "per_key", "[&#34;")
}
