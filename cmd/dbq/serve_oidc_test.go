//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestServeAcceptsTokensOfAProvider calls a server with tokens of a provider, and while the provider is down.
func TestServeAcceptsTokensOfAProvider(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	provider := &oidctest.Server{Algorithms: []string{oidc.ES256}, PublicKeys: []oidctest.PublicKey{
		{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.ES256}}}
	login := httptest.NewServer(provider)
	defer login.Close()
	provider.SetIssuer(login.URL)
	u.write("serve.yaml", `
databases: {shop: {dsn: a.db}}
auth:
  oidc:
    issuer: `+login.URL+`
    audience: dbq
    groups_claim: realm_access.roles
    skew: 10s
    rules: [{group: ops, role: operator}, {role: viewer}]
`)
	token := func(audience, group string) string {
		return oidctest.SignIDToken(key, "k", oidc.ES256, fmt.Sprintf(
			`{"iss":%q,"aud":%q,"sub":"ann","exp":%d,"realm_access":{"roles":[%q]}}`,
			login.URL, audience, time.Now().Unix()+600, group))
	}
	s := u.serve("--config", "serve.yaml")
	pause := func(s *serving, token string, want int) {
		t.Helper()
		status, _ := s.send("POST", "/v1/db/shop/queues/mail/pause", "{}", "Authorization", "Bearer "+token)
		if status != want {
			t.Errorf("got %d, want %d", status, want)
		}
	}
	pause(s, token("dbq", "ops"), 204)
	pause(s, token("dbq", "support"), 403)
	pause(s, token("other", "ops"), 401)
	if status, _ := s.get("/v1/databases"); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	late := u.serve("--config", "serve.yaml")
	login.Close()
	pause(late, token("dbq", "ops"), 503)
	u.run("serve", "--config", "serve.yaml", "--listen", "0.0.0.0:bad").fails(exitUsage, "HOST:PORT")
}
