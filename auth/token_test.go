package auth_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// bearing is a request with an Authorization header.
func bearing(header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", header)
	return r
}

func TestTokenAuthenticatesUntilItIsRevokedOrExpires(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	tokens, ctx := auth.NewTokens(db.Client), t.Context()
	secret, made, err := tokens.Create(ctx, auth.NewToken{Name: "deploy", Role: auth.Trigger, Queues: []string{"mail"},
		Databases: []string{"main"}, Payloads: true, TTL: time.Hour})
	check.OK(t, err)
	if !strings.HasPrefix(secret, "dbq_"+made.ID+"_") || len(secret) != 85 {
		t.Errorf("the token %s has another form", secret)
	}
	p, err := tokens.Authenticate(bearing("Bearer " + secret))
	if err != nil || fmt.Sprint(p) != "{token:deploy trigger [mail] [main] true}" {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := tokens.Authenticate(bearing("bearer  " + secret)); err != nil {
		t.Errorf("the scheme in lower case: %v", err)
	}
	other, _, err := tokens.Create(ctx, auth.NewToken{Name: "other", Role: auth.Admin})
	check.OK(t, err)
	for _, wrong := range []string{
		"", "Bearer", "Bearer ", "Basic " + secret, secret, "Bearer " + secret + "0", "Bearer " + secret[:84],
		"Bearer " + secret[:20] + other[20:], "Bearer " + strings.ToUpper(secret), "Bearer dbq_" + strings.Repeat("0", 81),
		"Bearer dbq_", "Bearer " + secret + " " + secret, "Bearer dbq_' OR 1=1 --",
	} {
		if p, err := tokens.Authenticate(bearing(wrong)); !errors.Is(err, auth.ErrUnauthenticated) || p.Role != "" {
			t.Errorf("%q: got %+v, %v", wrong, p, err)
		}
	}
	twice := bearing("Bearer " + secret)
	twice.Header.Add("Authorization", "Bearer "+other)
	if _, err := tokens.Authenticate(twice); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("two headers: %v", err)
	}

	db.Advance(time.Hour)
	if _, err := tokens.Authenticate(bearing("Bearer " + secret)); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("after its time: %v", err)
	}
	list, err := tokens.List(ctx)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for _, l := range list {
		if l.Expired != (l.ID == made.ID) || l.Used.IsZero() != (l.ID != made.ID) {
			t.Errorf("got %+v", l)
		}
		if err := tokens.Revoke(ctx, l.ID); err != nil {
			t.Error(err)
		}
		if err := tokens.Revoke(ctx, l.ID); !errors.Is(err, dbq.ErrNotFound) {
			t.Errorf("revoked again: %v", err)
		}
	}
	if _, err := tokens.Authenticate(bearing("Bearer " + other)); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("revoked: %v", err)
	}
}

func TestTokenDescriptionIsChecked(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(dbqtest.New(t).Client)
	for _, n := range []auth.NewToken{
		{}, {Name: "a"}, {Role: auth.Admin}, {Name: "a", Role: "root"}, {Name: "a\n", Role: auth.Admin},
		{Name: strings.Repeat("a", 101), Role: auth.Admin}, {Name: "a", Role: auth.Admin, TTL: -1},
		{Name: "a", Role: auth.Admin, Queues: []string{""}}, {Name: "a", Role: auth.Admin, Queues: make([]string, 21)},
		{Name: "a", Role: auth.Admin, TTL: dbq.MaxDelay + 1},
	} {
		if _, _, err := tokens.Create(t.Context(), n); !errors.Is(err, dbq.ErrOption) {
			t.Errorf("%+v: got %v", n, err)
		}
	}
}

func TestTokenIsNowhereButInItsAnswer(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	db := dbqtest.New(t, dbq.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	tokens := auth.NewTokens(db.Client)
	secret, made, err := tokens.Create(t.Context(), auth.NewToken{Name: "deploy", Role: auth.Viewer})
	check.OK(t, err)
	private := secret[len("dbq_"+made.ID+"_"):]
	if _, err := tokens.Authenticate(bearing("Bearer " + secret)); err != nil {
		t.Fatal(err)
	}
	list, _ := tokens.List(t.Context())
	printed := fmt.Sprintf("%+v %+v", list, made)
	rows, err := db.DB().QueryContext(t.Context(), "SELECT namespace || name || value FROM dbq_kv")
	check.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		check.OK(t, rows.Scan(&text))
		printed += text
	}
	if !strings.Contains(printed, "deploy") || rows.Err() != nil {
		t.Fatal("the record of the token was not read", rows.Err())
	}
	db.Close()
	_, err = tokens.Authenticate(bearing("Bearer " + secret))
	if err == nil || errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("a database that does not answer: %v", err)
	}
	if all := printed + log.String() + fmt.Sprint(err); strings.Contains(all, private) {
		t.Errorf("the secret is shown: %s", all)
	}
}

func TestTokenUseIsRecordedOnceAMinute(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	tokens := auth.NewTokens(db.Client)
	secret, _, err := tokens.Create(t.Context(), auth.NewToken{Name: "deploy", Role: auth.Viewer})
	check.OK(t, err)
	version := func() (n int) {
		err := db.DB().QueryRowContext(t.Context(), "SELECT version FROM dbq_kv WHERE namespace = 'token_used'").Scan(&n)
		check.OK(t, err)
		return n
	}
	first := 0
	for i := range 3 {
		if _, err := tokens.Authenticate(bearing("Bearer " + secret)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = version()
		}
	}
	if got := version(); got != first {
		t.Errorf("the record was written again: version %d after %d", got, first)
	}
}

// TestFloodOfWrongTokensIsReadAtALimitedRate sends many wrong tokens beside one that was accepted before.
func TestFloodOfWrongTokensIsReadAtALimitedRate(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(dbqtest.New(t).Client)
	secret, made, err := tokens.Create(t.Context(), auth.NewToken{Name: "deploy", Role: auth.Viewer})
	check.OK(t, err)
	if _, err := tokens.Authenticate(bearing("Bearer " + secret)); err != nil {
		t.Fatal(err)
	}
	start, read, refused := time.Now(), 0, 0
	for i := range 2000 {
		wrong := fmt.Sprintf("Bearer dbq_%s_%064x", made.ID, i) // also of a token that exists
		switch _, err := tokens.Authenticate(bearing(wrong)); {
		case errors.Is(err, auth.ErrTooMany):
			refused++
		case errors.Is(err, auth.ErrUnauthenticated):
			read++
		default:
			t.Fatal(err)
		}
	}
	if most := 250 + int(time.Since(start).Seconds()*100); read > most || refused == 0 {
		t.Errorf("%d wrong tokens were read and %d not, want at most %d", read, refused, most)
	}
	if _, err := tokens.Authenticate(bearing("Bearer " + secret)); err != nil {
		t.Errorf("a token that was accepted before: %v", err)
	}
}

// TestFloodOfOneAddressRefusesNoOtherCaller uses tokens for the first time during a flood of wrong ones. Few of the
// addresses may share the limit of the flood's.
func TestFloodOfOneAddressRefusesNoOtherCaller(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(dbqtest.New(t).Client)
	const callers = 6
	accepted := 0
	for i := range callers {
		secret, _, err := tokens.Create(t.Context(), auth.NewToken{Name: "deploy", Role: auth.Viewer})
		check.OK(t, err)
		for n := 0; !errors.Is(err, auth.ErrTooMany); n++ {
			if n > 100_000 {
				t.Fatal("the flood is not limited")
			}
			flood := bearing(fmt.Sprintf("Bearer dbq_0123456789abcdef_%064x", n))
			flood.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:7", n)
			_, err = tokens.Authenticate(flood)
		}
		r := bearing("Bearer " + secret)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:7", i)
		if _, err := tokens.Authenticate(r); err == nil {
			accepted++
		}
	}
	if accepted < callers/2 {
		t.Errorf("%d of %d callers were accepted", accepted, callers)
	}
}
