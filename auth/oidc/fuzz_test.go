package oidc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/auth"
)

// FuzzVerifier sends any header and claims, unsigned and with the signature of another token, and signs any user and
// group: only what is signed authenticates, and only by the rules.
func FuzzVerifier(f *testing.F) {
	i := newIssuer(f)
	v := i.verifier(nil)
	own := strings.Split(i.token("k1", nil), ".")
	raw := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	f.Add(`{"alg":"none"}`, `{"iss":"`+i.url+`","aud":"dbq","sub":"bob","exp":9999999999}`, "bob", "ops")
	f.Add(`{"alg":"HS256","kid":"k1"}`, `{"iss":["`+i.url+`"]}`, "ann", "ops.x")
	f.Add(`{"alg":"ES256","kid":"k1"}`, `{"iss":"`+i.url+`"}`, "bob\x00", "")
	f.Fuzz(func(t *testing.T, header, claims, user, group string) {
		signer := &issuer{t: t, url: i.url, keys: i.keys}
		get := func(token string) (auth.Principal, error) {
			r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
			return v.Authenticate(r.WithContext(t.Context()))
		}
		for _, signature := range []string{"", own[2], raw(header)} {
			if p, err := get(raw(header) + "." + raw(claims) + "." + signature); !errors.Is(err, auth.ErrUnauthenticated) ||
				p.Role != "" {
				t.Errorf("%q %q with the signature %q: %+v, %v", header, claims, signature, p, err)
			}
		}
		p, err := get(signer.token("k1", map[string]any{"sub": user, "groups": group}))
		want, refused := v.cfg.Rules.Principal(asJSON(user), []string{asJSON(group)})
		if p.Name != want.Name || p.Role != want.Role || (err == nil) != (refused == nil) {
			t.Errorf("user %q of group %q: %+v, %v, want %+v", user, group, p, err, want)
		}
	})
}

// asJSON returns a text as it is read after it was written as JSON, which replaces what is not UTF-8.
func asJSON(text string) (out string) {
	b, err := json.Marshal(text)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}
