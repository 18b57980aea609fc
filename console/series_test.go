package console_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/series"
)

// report adds what a worker did in the minute that includes a time ago.
func (s *site) report(queue string, ago time.Duration, c series.Counts) {
	s.t.Helper()
	since := time.Now().Add(-ago).Truncate(time.Minute).UnixMicro()
	if err := access.Of(s.client).Store.AddReport(s.t.Context(), dbq.NewID().String(),
		series.Period{Queue: queue, Since: since, Counts: c}); err != nil {
		s.t.Fatal(err)
	}
}

// sample samples the minute that includes a time ago.
func (s *site) sample(ago time.Duration) {
	s.t.Helper()
	since := time.Now().Add(-ago).Truncate(time.Minute).UnixMicro()
	err := access.Of(s.client).Store.Sample(s.t.Context(), since, func(string) bool { return false })
	if err != nil {
		s.t.Fatal(err)
	}
}

// took returns the histogram of some equal durations.
func took(n int64, d time.Duration) series.Histogram {
	var t series.Tally
	for range n {
		t.RunTime.Record(d)
	}
	c, _ := t.Since()
	return c.RunTime
}

var plotted = regexp.MustCompile(`data-v="([^"]*)"`)

func TestQueueShowsItsStatistics(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.shows(s.get(200, "/db/shop/queue", "queue", "mail"), "Nothing was counted in this time")
	s.report("bills", 30*time.Minute, series.Counts{
		Started: 3, Completed: 1234, Failed: 2, Poisoned: 1,
		Latency: took(3, 5*time.Millisecond), RunTime: took(3, time.Second),
	})
	s.report("bills", 5*time.Hour, series.Counts{Completed: 4000})
	s.report("bills", 50*time.Hour, series.Counts{Completed: 50000})
	for over, want := range map[string]struct {
		rows  int
		sum   string
		lacks string
	}{
		"":    {60, "1,234", "4,000"},
		"24h": {96, "4,000", "50,000"},
		"7d":  {168, "50,000", "Nothing was counted"},
	} {
		page := s.get(200, "/db/shop/queue", "queue", "bills", "over", over)
		s.shows(page, want.sum, `aria-current="true"`, "over=7d", `<figure class="plot" data-columns="1 2 3 4">`)
		s.hides(page, ">"+want.lacks+"<")
		rows := want.rows + strings.Count(page, "<tr data-partial>")
		if got := len(plotted.FindAllString(page, -1)); got != 12*rows || rows > want.rows+1 {
			t.Errorf("over %q: %d numbers, want %d", over, got, 12*rows)
		}
	}
	page := s.get(200, "/db/shop/queue", "queue", "bills")
	for _, n := range []string{"1234", "2", "1", "0.00512", "1.04858"} { // percentiles are upper bounds of their buckets
		s.shows(page, `data-v="`+n+`"`)
	}
	s.shows(s.get(422, "/db/shop/queue", "queue", "bills", "over", "2h"), "over must be 1h, 24h or 7d")
}

// Where no sampler has counted the enqueued tasks, the pages have gaps.
func TestPlotsHaveGaps(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("bills", dbq.NewTask{})
	s.report("bills", 30*time.Minute, series.Counts{Completed: 7})
	s.shows(s.get(200, "/db/shop/"), "<dd>– <svg", `<path d=""/>`)
	for _, m := range []time.Duration{20, 30, 31} {
		s.sample(m * time.Minute)
	}
	page := s.get(200, "/db/shop/queue", "queue", "bills")
	if n := strings.Count(page, `<td class="num" data-v="">–</td>`); n < 3*57 || n > 3*58 {
		t.Errorf("%d numbers are unknown, want three of 57 minutes", n)
	}
}

// TestPartsOfAQueueAreSmall reads what the page of a queue reads when it refreshes itself.
func TestPartsOfAQueueAreSmall(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.report("mail", 30*time.Minute, series.Counts{Completed: 1234})
	figures := s.get(200, "/db/shop/queue", "queue", "mail", "part", "figures")
	s.shows(figures, `id="live"`)
	s.hides(figures, `id="numbers"`, `action="/db/shop/queue/limits"`)
	numbers := s.get(200, "/db/shop/queue", "queue", "mail", "part", "series")
	s.shows(numbers, `id="numbers"`, "1,234")
	s.hides(numbers, `action="/db/shop/queue/limits"`)
}

func TestOverviewHasSparklinesOfTheQueuesOfTheUser(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	s := serve(t, client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	s.enqueue("mail", dbq.NewTask{})
	s.enqueue("bills", dbq.NewTask{})
	s.report("mail", 30*time.Minute, series.Counts{Enqueued: 1200, Completed: 1000, Failed: 34})
	s.report("mail", 20*time.Minute, series.Counts{Completed: 500})
	s.report("bills", 20*time.Minute, series.Counts{Completed: 70000})
	s.sample(30 * time.Minute)
	page := s.get(200, "/db/shop/")
	s.shows(page, "<dd>1,200 <svg", "<dd>1,500 <svg", `aria-label="1,500 completed and 34 failed in the last hour"`)
	s.hides(page, "71,500", "70,000")
	if n := strings.Count(s.live(page), "<path"); n != 6 {
		t.Errorf("the overview has %d lines, want 4 of all queues and 2 of mail", n)
	}
}

// TestOverviewShowsQueueThatFailsMoreOftenThanUsual compares the last minutes with the day before.
func TestOverviewShowsQueueThatFailsMoreOftenThanUsual(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	s.report("mail", 3*time.Hour, series.Counts{Completed: 980, Failed: 20})
	s.report("mail", 5*time.Minute, series.Counts{Completed: 140, Failed: 60})
	const text = "30% of 200 attempts failed in the last 15 minutes, and 2% in the day before."
	s.shows(s.get(200, "/db/shop/"), "Queue mail fails more often than usual", text)
	page := s.get(200, "/db/shop/queue", "queue", "mail")
	s.shows(page, text) // in the line that says why its tasks wait
	s.hides(page, "fails more often than usual")
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"bills"}}}, "")
	bob.hides(bob.get(200, "/db/shop/"), "fails more often than usual")
}
