package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
)

// TestRefusalNamesTheField sends tasks that the queue never accepts. The problem names the field, but no part of it.
func TestRefusalNamesTheField(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t, dbq.WithMaxPayload(100))
	secret := bridge.NewSecret()
	s := serve(t, newReceiver(t, bridge.ReceiverConfig{
		Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}, Tasks: true,
	}).ServeHTTP)
	for field, want := range map[string]error{
		`"headers":{"planted":"` + strings.Repeat("x", dbq.MaxHeaders) + `"}`: dbq.ErrHeaders,
		`"headers":{"planted\u0000":""}`:                                      dbq.ErrHeaders,
		`"payload":"` + strings.Repeat("AAAA", 34) + `"`:                      dbq.ErrPayloadSize,
		`"kind":"planted\u0000"`:                                              dbq.ErrKind,
		`"key":"planted\u0000"`:                                               dbq.ErrKey,
		`"reference":"planted\u0000"`:                                         dbq.ErrReference,
		`"priority":99`:                                                       dbq.ErrPriority,
		`"max_attempts":-1`:                                                   dbq.ErrMaxAttempts,
	} {
		body := `{"window":"1h","tasks":[{"id":"0198c1f2-7a3b-7c4d-8e5f-0123456789ab",` + field + `}]}`
		got := do(t, signed(t, s.URL, dbq.NewID().String(), time.Now(), body, secret))
		if got.Status != 422 || !strings.HasSuffix(got.Detail, ": "+want.Error()) || strings.Contains(got.Detail, "planted") {
			t.Errorf("%.40s: %+v, want 422 and %q", field, got, want)
		}
	}
}
