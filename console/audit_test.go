package console_test

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/admin"
)

func TestAuditIsFilteredByTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	if err := admin.New(s.client).PauseQueue(t.Context(), "mail", admin.Reason("month end")); err != nil {
		t.Fatal(err)
	}
	past := time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04")
	coming := time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04")
	const path, entry = "/db/shop/audit", "month end"
	s.shows(s.get(200, path, "since", past, "until", coming), entry, `name="since" value="`+past+`"`)
	s.hides(s.get(200, path, "since", coming), entry)
	s.hides(s.get(200, path, "until", past), entry)
	s.shows(s.get(422, path, "since", "yesterday"), "write a time in UTC")
}
