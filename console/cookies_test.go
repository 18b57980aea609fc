package console_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// longTokens accepts bearer tokens that are the letter of a user, repeated.
type longTokens struct{}

func (longTokens) Authenticate(r *http.Request) (auth.Principal, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" || strings.Trim(token, token[:1]) != "" || len(token)%100 != 0 {
		return auth.Principal{}, auth.ErrUnauthenticated
	}
	return auth.Principal{Name: "user-" + token[:1], Role: auth.Viewer}, nil
}

// TestLongTokensFitTheCookies signs in with tokens of all lengths, as identity providers issue them, one after the
// other: no part of an earlier token stays. A browser keeps no cookie of more than 4,096 bytes.
func TestLongTokensFitTheCookies(t *testing.T) {
	t.Parallel()
	s := serve(t, dbqtest.New(t).Client, longTokens{}, "/dbq")
	jar, err := cookiejar.New(nil)
	check.OK(t, err)
	s.http.Jar = jar
	for i, n := range []int{100, 15_200, 3800, 7600, 100, 9000, 3900, 12_000} {
		name := string(rune('a' + i))
		answer, err := s.http.Post(s.url+"/login", "application/x-www-form-urlencoded",
			strings.NewReader("token="+strings.Repeat(name, n)))
		s.body(303, answer, err)
		for _, line := range answer.Header.Values("Set-Cookie") {
			if len(line) > 4096 {
				t.Errorf("a cookie of %d bytes", len(line))
			}
		}
		s.shows(s.get(200, "/db/shop/"), ">user-"+name+"<", "Sign out")
	}
	s.shows(s.post(422, "/login", "token", strings.Repeat("x", 15_300)), "too long", "15200 bytes")
	s.shows(s.get(200, "/db/shop/"), ">user-h<") // the session before
	s.post(303, "/logout")
	s.get(303, "/db/shop/")
}

// TestSessionsOfTwoConsolesOfAHost: one console is at the root of a host, another one at /staging. A long token of the
// first does not keep a user from signing in to the second, to which a browser sends the cookies of both.
func TestSessionsOfTwoConsolesOfAHost(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/staging"} {
		c, err := console.New(console.Config{
			Databases: map[string]*dbq.Client{"shop": client}, Authenticator: longTokens{}, Prefix: prefix})
		check.OK(t, err)
		mux.Handle(prefix+"/", c)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	check.OK(t, err)
	browser := &http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	root := &site{t, client, server.URL, browser}
	staging := &site{t, client, server.URL + "/staging", browser}
	root.post(303, "/login", "token", strings.Repeat("a", 9000))
	for _, n := range []int{100, 5000, 12_000} {
		staging.post(303, "/login", "token", strings.Repeat("b", n))
		staging.shows(staging.get(200, "/db/shop/"), ">user-b<")
		root.shows(root.get(200, "/db/shop/"), ">user-a<")
	}
}
