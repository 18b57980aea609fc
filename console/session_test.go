package console_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestSignInLeadsToNoOtherSite tries addresses that browsers take for other sites.
func TestSignInLeadsToNoOtherSite(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	for _, to := range []string{
		"//evil.example", "/\t/evil.example", "/\n/evil.example", "/\\evil.example", "https://evil.example", "evil.example",
		"/\x00/evil.example", "\t//evil.example", "/%zz", "///evil.example", "",
	} {
		if got := s.post(303, "/login", "token", "any", "to", to); got != "/" {
			t.Errorf("%q leads to %q, want /", to, got)
		}
	}
	const page = "/db/shop/tasks?queue=mail&older=1h"
	if got := s.post(303, "/login", "token", "any", "to", page); got != page {
		t.Errorf("%q leads to %q", page, got)
	}
}

// TestCookieIsSecureBehindATrustedProxy signs in through a proxy that ends TLS, and through one that is not trusted.
func TestCookieIsSecureBehindATrustedProxy(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	for _, c := range []struct {
		proxy, proto string
		want         bool
	}{
		{"127.0.0.0/8", "https", true}, {"127.0.0.0/8", "HTTPS, http", true}, {"127.0.0.0/8", "http", false},
		{"127.0.0.0/8", "", false}, {"192.0.2.1/32", "https", false},
	} {
		s := serveWith(t, console.Config{
			Databases: map[string]*dbq.Client{"shop": client}, Authenticator: ann,
			Proxies: []netip.Prefix{netip.MustParsePrefix(c.proxy)},
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/login?token=any", http.NoBody)
		check.OK(t, err)
		r.Header.Set("X-Forwarded-Proto", c.proto)
		answer, err := s.http.Do(r)
		check.OK(t, err)
		answer.Body.Close()
		if cookies := answer.Cookies(); len(cookies) != 1 || cookies[0].Secure != c.want {
			t.Errorf("%+v: the cookies are %v", c, cookies)
		} else if strings.HasPrefix(cookies[0].Name, "__Host-") != c.want {
			t.Errorf("%+v: the cookie is %s", c, cookies[0].Name)
		}
	}
}

// TestSessionThatEndedHidesNoOtherCredentials sends an old cookie with a valid token, and through a proxy.
func TestSessionThatEndedHidesNoOtherCredentials(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	tokens := auth.NewTokens(client)
	token, _, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann", Role: auth.Operator})
	check.OK(t, err)
	proxy := auth.Proxy{
		From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, UserHeader: "X-User",
		Rules: auth.Rules{{User: "bob", Role: auth.Viewer}},
	}
	s := serve(t, client, auth.Chain{tokens, proxy}, "")
	old := "dbq_session=1." + url.QueryEscape(token[:len(token)-1]+"x")
	s.do(303, "GET", "/db/shop/workers", "", "Cookie", old)
	s.shows(s.do(200, "GET", "/db/shop/workers", "", "Cookie", old, "X-User", "bob"), ">bob<")
	s.do(200, "GET", "/db/shop/workers", "", "Cookie", old, "Authorization", "Bearer "+token)
	s.do(303, "GET", "/db/shop/workers", "", "Cookie", old, "X-User", "eve")
}

// TestSessionThatEndsIsAStatusForARefresh revokes the token of a page that refreshes itself.
func TestSessionThatEndsIsAStatusForARefresh(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	tokens := auth.NewTokens(client)
	token, info, err := tokens.Create(t.Context(), auth.NewToken{Name: "ann", Role: auth.Operator})
	check.OK(t, err)
	s := serve(t, client, tokens, "/dbq")
	bearer := []string{"Authorization", "Bearer " + token, "HX-Request", "true"}
	page := s.do(200, "GET", "/db/shop/queue?queue=mail", "", bearer...)
	s.shows(page, `href="/dbq/login?to=%2Fdb%2Fshop%2Fqueue%3Fqueue%3Dmail"`, "Your session has ended")
	check.OK(t, tokens.Revoke(t.Context(), info.ID))
	answer := s.do(401, "GET", "/db/shop/queue?queue=mail", "", bearer...)
	s.shows(answer, "Your session has ended. Sign in again.")
	if strings.Contains(answer, "<") {
		t.Errorf("the answer has a page: %s", answer)
	}
	s.do(303, "GET", "/db/shop/queue?queue=mail", "", bearer[:2]...)
}
