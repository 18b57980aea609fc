package console_test

import (
	"html"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
)

// form returns the fields of the form of a page that has an action, as a browser sends them.
func (s *site) form(page, action string) (fields []string) {
	s.t.Helper()
	_, rest, found := strings.Cut(page, `action="`+action+`"`)
	if !found {
		s.t.Fatalf("the page has no form for %s", action)
	}
	form, _, _ := strings.Cut(rest, "</form>")
	tag := regexp.MustCompile(`<(input|select|option)\b[^>]*>`)
	attribute := func(tag, name string) string {
		m := regexp.MustCompile(`\b` + name + `="([^"]*)"`).FindStringSubmatch(tag)
		if m == nil {
			return ""
		}
		return html.UnescapeString(m[1])
	}
	selected := ""
	for _, m := range tag.FindAllStringSubmatch(form, -1) {
		switch name := attribute(m[0], "name"); {
		case m[1] == "select":
			selected = name
		case m[1] == "option":
			if strings.Contains(m[0], " selected") {
				fields = append(fields, selected, attribute(m[0], "value"))
			}
		case !strings.Contains(m[0], `type="checkbox"`) || strings.Contains(m[0], " checked"):
			fields = append(fields, name, attribute(m[0], "value"))
		}
	}
	return fields
}

// TestFormHasEverySetting shows a queue with all settings, and sends its form as it is. A setting that the form lacks
// would be lost.
func TestFormHasEverySetting(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	ops := admin.New(s.client)
	all := admin.QueueSettings{Concurrency: 4, MaxCheckout: 3, Poll: 90 * time.Second,
		Lease:       45*time.Second + time.Millisecond,
		MaxAttempts: 9, History: dbq.HistoryFailures, DeadLetter: "alerts", NoStatistics: true, Retention: dbq.Retention{
			Completed: 36 * time.Hour, Poison: dbq.Forever, Cancelled: 48 * time.Hour, Parked: 14 * 24 * time.Hour,
			Attempts: 90 * time.Minute, Archive: true}}
	for of, v := range map[string]reflect.Value{"": reflect.ValueOf(all), "Retention": reflect.ValueOf(all.Retention)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s %s is not set", of, v.Type().Field(i).Name)
			}
		}
	}
	check.OK(t, ops.ConfigureQueue(t.Context(), "mail", func(s *admin.QueueSettings) { *s = all }))
	page := s.get(200, "/db/shop/queue", "queue", "mail")
	s.shows(page, `value="1d12h"`, `value="forever"`, `value="14d"`, `value="1h30m"`, `value="1m30s"`, `value="45.001s"`)
	const action = "/db/shop/queue/settings"
	s.post(303, action, s.form(page, action)...)
	if got, err := ops.QueueSettings(t.Context(), "mail"); err != nil || got != all {
		t.Errorf("the form as it is makes the settings %+v, want %+v: %v", got, all, err)
	}
	audit, err := ops.Audit(t.Context(), admin.AuditFilter{Action: "configure queue"})
	if err != nil || len(audit.Entries) != 1 {
		t.Errorf("the audit has %d entries, want the first one only: %v", len(audit.Entries), err)
	}
	for _, tooLong := range []string{"106752d", "213504d"} { // as nanoseconds, these are more than an int64 has
		s.shows(s.post(422, action, "queue", "mail", "keep_completed", tooLong), `value="`+tooLong+`"`)
	}
	s.post(303, action, "queue", "mail")
	if got, err := ops.QueueSettings(t.Context(), "mail"); err != nil || got != (admin.QueueSettings{}) {
		t.Errorf("an empty form makes the settings %+v, want none: %v", got, err)
	}
}
