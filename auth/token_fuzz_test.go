package auth_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
)

// FuzzTokens sends any credentials, and any change of a token: only the token itself authenticates.
func FuzzTokens(f *testing.F) {
	tokens := auth.NewTokens(dbqtest.New(f).Client)
	secret, _, err := tokens.Create(f.Context(), auth.NewToken{Name: "deploy", Role: auth.Admin})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer ", uint8(0), uint8(255), "")
	f.Add("bearer  ", uint8(4), uint8(5), "f")
	f.Add("Bearer dbq_0123456789abcdef_", uint8(21), uint8(85), "\x00")
	f.Fuzz(func(t *testing.T, begin string, from, to uint8, end string) {
		part := secret[min(int(from), int(to), len(secret)):min(max(int(from), int(to)), len(secret))]
		header := begin + part + end
		r := &http.Request{Header: http.Header{"Authorization": {header}}, RemoteAddr: "127.0.0.1:1"}
		p, err := tokens.Authenticate(r.WithContext(t.Context()))
		scheme, token, _ := strings.Cut(header, " ")
		if own := strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(token) == secret; own != (err == nil) &&
			!errors.Is(err, auth.ErrTooMany) {
			t.Errorf("%q: %+v, %v", header, p, err)
		}
		if err != nil && (p.Role != "" || strings.Contains(fmt.Sprint(err), secret)) {
			t.Errorf("%q is refused with %+v, %v", header, p, err)
		}
	})
}
