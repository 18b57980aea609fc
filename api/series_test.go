package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// work completes n tasks of a queue with a worker.
func (s *site) work(queue string, n int) {
	s.t.Helper()
	q := s.client.Queue(queue)
	for range n {
		if _, err := q.Enqueue(s.t.Context(), dbq.NewTask{Payload: []byte("planted")}); err != nil {
			s.t.Fatal(err)
		}
	}
	w := worker.Worker{Queue: q, UntilEmpty: true,
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })}
	if err := w.Run(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// completed returns how many tasks a series says were completed, and how many points it has.
func completed(series map[string]any) (n float64, points int) {
	for _, p := range series["points"].([]any) {
		n += p.(map[string]any)["completed"].(float64)
		points++
	}
	return n, points
}

func TestSeriesHaveWhatWorkersDid(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const path = "/v1/db/shop/series"
	if list := s.must(200, "GET", path, "")["queues"].([]any); len(list) != 0 {
		t.Errorf("a series before a worker has run: %v", list)
	}
	s.work("mail", 5)
	s.work("other", 2)
	for query, want := range map[string]string{
		"?queue=mail": "5 in 61", "?queue=none": "0 in 61",
		"?queue=mail&to=2026-01-02T00:00:00Z&from=2026-01-01T00:00:00Z": "0 in 60",
		"?queue=mail&to=2026-01-02T00:00:00%2B02:00":                    "0 in 60",
	} {
		n, points := completed(one(t, s.must(200, "GET", path+query, ""), "queues"))
		if got := fmt.Sprint(n, " in ", points); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	hours := one(t, s.must(200, "GET", path+"?queue=mail&period_seconds=3600", ""), "queues")
	if n, points := completed(hours); n != 5 || points > 2 {
		t.Errorf("by the hour: %v in %d, want 5 in one or two", n, points)
	}
	if list := s.must(200, "GET", path, "")["queues"].([]any); len(list) != 2 {
		t.Errorf("series of %v, want two queues", list)
	}
}

// A number that no sample has counted is null, not 0.
func TestSeriesTellNoneFromUnknown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	sampled := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	err := access.Of(s.client).Store.Sample(t.Context(), sampled, func(string) bool { return false })
	check.OK(t, err)
	got := s.must(200, "GET", "/v1/db/shop/series?queue=mail&from=2026-01-01T00:00:00Z&to=2026-01-01T00:02:00Z", "")
	for i, want := range []any{0.0, nil} {
		p := one(t, got, "queues")["points"].([]any)[i].(map[string]any)
		for _, number := range []string{"enqueued", "created", "due", "oldest_due_seconds"} {
			if p[number] != want || p["completed"] != 0.0 || (p["samples"] == 0.0) != (want == nil) {
				t.Errorf("%s is %v, want %v, in %v", number, p[number], want, p)
			}
		}
	}
}

func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.work("mail", 1)
	const path = "/v1/db/shop/series?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z"
	s.must(200, "GET", path, "")
	for query, problem := range map[string]string{
		"&period_seconds=60": "option", "&queue=mail&period_seconds=60": "option", "&queue=%00": "queue-name",
		"&period_seconds=90": "invalid-request", "&period_seconds=0": "invalid-request",
		"&period_seconds=-60": "invalid-request", "&period_seconds=9000000000000000000": "invalid-request",
		"&period=60": "invalid-request",
	} {
		s.refused(422, problem, "GET", path+query, "")
	}
	for _, query := range []string{"from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from=yesterday",
		"from=9999-01-01T00:00:00Z", "to=planted"} {
		s.refused(422, "invalid-request", "GET", "/v1/db/shop/series?"+query, "")
	}
	s.refused(422, "option", "GET", "/v1/db/shop/series?from=1960-01-01T00:00:00Z", "")
	for _, queue := range []string{"", "&queue=mail"} { // longer than any time.Duration
		s.refused(422, "option", "GET", "/v1/db/shop/series?from=1970-01-01T00:00:00Z&to=9999-01-01T00:00:00Z"+queue, "")
	}
	s.refused(404, "no-such-database", "GET", "/v1/db/none/series", "")
}

func TestSeriesShowOnlyTheCallersQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.work("mail", 1)
	s.work("other", 1)
	mailer := s.as(auth.Principal{Name: "m", Role: auth.Viewer, Queues: []string{"mail"}})
	if q := one(t, mailer.must(200, "GET", "/v1/db/shop/series", ""), "queues"); q["queue"] != "mail" {
		t.Errorf("the series of another queue: %v", q)
	}
	mailer.must(200, "GET", "/v1/db/shop/series?queue=mail", "")
	if _, err := s.client.DB().Exec("UPDATE dbq_stat SET run_time = 'unreadable' WHERE queue = 'other'"); err != nil {
		t.Fatal(err)
	}
	s.refused(500, "internal", "GET", "/v1/db/shop/series", "")
	mailer.must(200, "GET", "/v1/db/shop/series", "") // it reads no rows of others
	mailer.refused(403, "forbidden", "GET", "/v1/db/shop/series?queue=other", "")
	elsewhere := s.as(auth.Principal{Name: "e", Role: auth.Admin, Databases: []string{"log"}})
	elsewhere.refused(403, "forbidden", "GET", "/v1/db/shop/series", "")
}

// TestStatisticsAreTurnedOffOverHTTP also checks that a series distinguishes a setting from its absence.
func TestStatisticsAreTurnedOffOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	settings := s.must(200, "PATCH", mail+"/settings", `{"no_statistics":true}`)
	if settings["no_statistics"] != true {
		t.Errorf("the settings are %v", settings)
	}
	s.work("mail", 1)
	if list := s.must(200, "GET", "/v1/db/shop/series", "")["queues"].([]any); len(list) != 0 {
		t.Errorf("statistics that were turned off: %v", list)
	}
	if settings = s.must(200, "PATCH", mail+"/settings", `{"no_statistics":false}`); settings["no_statistics"] != nil {
		t.Errorf("the settings are %v", settings)
	}
	s.work("mail", 1)
	n, _ := completed(one(t, s.must(200, "GET", "/v1/db/shop/series?to="+
		strings.ReplaceAll(time.Now().Add(time.Hour).Format(time.RFC3339), "+", "%2B"), ""), "queues"))
	if n != 1 {
		t.Errorf("%v completed tasks after statistics were turned on, want 1", n)
	}
}

// Series wait for one another and not for other requests, because each may take much memory.
func TestSeriesAreReadInTurn(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Timeout = 200 * time.Millisecond })
	free := api.HoldSeries(s.api)
	s.refused(504, "timeout", "GET", "/v1/db/shop/series", "")
	s.must(200, "GET", "/v1/db/shop/stats", "")
	free()
	s.must(200, "GET", "/v1/db/shop/series", "")
	s.must(200, "GET", "/v1/db/shop/series", "")
}
