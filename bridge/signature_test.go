package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The example that Standard Webhooks publishes with its reference libraries.
const (
	specSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	specID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	specSeconds   = 1614265330
	specBody      = `{"test": 2432232314}`
	specSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func mustSecret(t testing.TB, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignatureMatchesTheSpecification(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	sign(h, []Secret{mustSecret(t, specSecret)}, specID, time.Unix(specSeconds, 0), []byte(specBody))
	for name, want := range map[string]string{
		"webhook-id": specID, "webhook-timestamp": fmt.Sprint(specSeconds), "webhook-signature": specSignature,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// check verifies a message as a Receiver does.
func check(h http.Header, now time.Time, body string, secrets ...Secret) error {
	m, err := readMessage(h, now, 5*time.Minute)
	if err != nil {
		return err
	}
	return m.verify(secrets, []byte(body))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	own, other, third := mustSecret(t, specSecret), NewSecret(), NewSecret()
	at := time.Unix(specSeconds, 0)
	headers := func(change func(h http.Header)) http.Header {
		h := http.Header{}
		sign(h, []Secret{own}, specID, at, []byte(specBody))
		if change != nil {
			change(h)
		}
		return h
	}
	rotated := func(h http.Header) { sign(h, []Secret{third, own}, specID, at, []byte(specBody)) }
	dotted := func(h http.Header) { sign(h, []Secret{own}, "msg.1", at, []byte(specBody)) }
	none, twice := func(h http.Header) { h.Del(headerID) }, func(h http.Header) { h.Add(headerID, specID) }
	more := func(h http.Header) { h.Add(headerSignature, "v1,") }
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	for name, c := range map[string]struct {
		h    http.Header
		now  time.Time
		body string
		with []Secret
		want error
	}{
		"own":                {headers(nil), at, specBody, []Secret{own}, nil},
		"rotated receiver":   {headers(nil), at, specBody, []Secret{other, own}, nil},
		"rotated sender":     {headers(rotated), at, specBody, []Secret{own}, nil},
		"after 5 minutes":    {headers(nil), at.Add(5 * time.Minute), specBody, []Secret{own}, nil},
		"too late":           {headers(nil), at.Add(5*time.Minute + time.Second), specBody, []Secret{own}, errExpired},
		"too early":          {headers(nil), at.Add(-5*time.Minute - time.Second), specBody, []Secret{own}, errExpired},
		"other secret":       {headers(nil), at, specBody, []Secret{other}, errSignature},
		"other body":         {headers(nil), at, specBody + " ", []Secret{own}, errSignature},
		"other id":           {headers(set(headerID, "msg_2")), at, specBody, []Secret{own}, errSignature},
		"other timestamp":    {headers(set(headerTimestamp, "1614265331")), at, specBody, []Secret{own}, errSignature},
		"id takes the dot":   {headers(set(headerID, specID+".1614265330")), at, specBody, []Secret{own}, errHeaders},
		"a dot in an id":     {headers(dotted), at, specBody, []Secret{own}, errHeaders},
		"no id":              {headers(none), at, specBody, []Secret{own}, errHeaders},
		"two ids":            {headers(twice), at, specBody, []Secret{own}, errHeaders},
		"two signatures":     {headers(more), at, specBody, []Secret{own}, errHeaders},
		"a long id":          {headers(set(headerID, strings.Repeat("m", 201))), at, specBody, []Secret{own}, errHeaders},
		"a control in an id": {headers(set(headerID, "m\x7f")), at, specBody, []Secret{own}, errHeaders},
		"a sign":             {headers(set(headerTimestamp, "+1614265330")), at, specBody, []Secret{own}, errHeaders},
		"a huge timestamp": {headers(set(headerTimestamp, "99999999999999999999")),
			at, specBody, []Secret{own}, errHeaders},
		"the last timestamp": {headers(set(headerTimestamp, "9223372036854775807")), at, specBody, []Secret{own}, errExpired},
		"another version": {headers(set(headerSignature, "v2"+specSignature[2:])),
			at, specBody, []Secret{own}, errSignature},
		"not base64":        {headers(set(headerSignature, "v1,***")), at, specBody, []Secret{own}, errSignature},
		"a short signature": {headers(set(headerSignature, "v1,g0hM")), at, specBody, []Secret{own}, errSignature},
	} {
		if err := check(c.h, c.now, c.body, c.with...); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	s := mustSecret(t, specSecret)
	inJSON, err := json.Marshal(map[string]any{"s": s, "e": Endpoint{Secrets: []Secret{s}}})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "all", []Secret{s})
	printed := fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, []Secret{s}) + string(inJSON) + log.String()
	for _, part := range []string{"MfKQ9r8", "31f290f6", "49 242", "[]byte"} {
		if strings.Contains(printed, part) {
			t.Errorf("the secret's %q is in %s", part, printed)
		}
	}
	if s.Reveal() != specSecret {
		t.Errorf("Reveal returns %q", s.Reveal())
	}
	for _, text := range []string{"", "whsec_", "whsec_c2hvcnQ=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS*",
		"whsec_" + strings.Repeat("QUFB", 22)} {
		if _, err := ParseSecret(text); !errors.Is(err, ErrConfig) || len(text) > 10 && strings.Contains(err.Error(), text) {
			t.Errorf("ParseSecret(%q): %v", text, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(specID, fmt.Sprint(specSeconds), specSignature, []byte(specBody))
	f.Add("", "-1", "v1, v1,, v2,AAAA", []byte{})
	f.Add("a\x00b", "01614265330", strings.Repeat("v1,AA== ", 100), []byte("x"))
	secret := mustSecret(f, specSecret)
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		h := http.Header{headerID: {id}, headerTimestamp: {timestamp}, headerSignature: {signature}}
		if err := check(h, time.Unix(specSeconds, 0), string(body), secret); err != nil {
			return
		}
		want := http.Header{}
		sign(want, []Secret{secret}, id, time.Unix(specSeconds, 0), body)
		if timestamp == fmt.Sprint(specSeconds) && !strings.Contains(signature, want.Get(headerSignature)) {
			t.Errorf("%q is accepted without the signature %s", signature, want.Get(headerSignature))
		}
	})
}
