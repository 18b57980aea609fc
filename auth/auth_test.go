package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
)

func TestRolesMayDoTheirActions(t *testing.T) {
	t.Parallel()
	for role, may := range map[auth.Role]string{
		auth.Viewer: "read", auth.Trigger: "read enqueue work",
		auth.Responder: "read enqueue operate",
		auth.Operator:  "read enqueue work operate delete configure",
		auth.Admin:     "read enqueue work operate delete configure admin",
		"":             "", "root": "",
	} {
		p := auth.Principal{Role: role}
		for _, a := range []auth.Action{
			auth.Read, auth.Enqueue, auth.Work, auth.Operate, auth.Delete, auth.Configure, auth.Administer, "", "other",
		} {
			want := a != "" && strings.Contains(" "+may+" ", " "+string(a)+" ")
			if got := p.May(a, "main", "mail"); got != want {
				t.Errorf("role %q, action %q: got %t", role, a, got)
			}
		}
	}
}

func TestPrincipalKeepsToItsQueuesAndDatabases(t *testing.T) {
	t.Parallel()
	p := auth.Principal{Role: auth.Admin, Queues: []string{"mail"}, Databases: []string{"main"}}
	for _, c := range []struct {
		database, queue string
		may             bool
	}{
		{"main", "mail", true}, {"main", "other", false}, {"other", "mail", false},
		{"main", "", false}, {"", "mail", false}, {"main", "MAIL", false},
	} {
		if p.May(auth.Read, c.database, c.queue) != c.may {
			t.Errorf("%+v", c)
		}
	}
	if !(auth.Principal{Role: auth.Viewer}).May(auth.Read, "", "") {
		t.Error("a principal without restrictions may not read everything")
	}
}

// answer is an authenticator with one answer.
type answer struct {
	name string
	err  error
}

func (s answer) Authenticate(*http.Request) (auth.Principal, error) {
	return auth.Principal{Name: s.name}, s.err
}

func TestChainEndsAtWrongCredentials(t *testing.T) {
	t.Parallel()
	away := errors.New("the database is away")
	none, yes := answer{err: auth.ErrUnauthenticated}, answer{name: "ann"}
	for _, c := range []struct {
		chain auth.Chain
		err   error
	}{
		{auth.Chain{none, yes}, nil},
		{auth.Chain{yes, answer{err: away}}, nil},
		{auth.Chain{answer{err: auth.Refused()}, yes}, auth.ErrUnauthenticated},
		{auth.Chain{answer{err: away}, yes}, away},
		{auth.Chain{none, none}, auth.ErrUnauthenticated},
		{nil, auth.ErrUnauthenticated},
	} {
		p, err := c.chain.Authenticate(nil)
		if !errors.Is(err, c.err) || c.err == nil && p.Name != "ann" || c.err != nil && p.Name != "" {
			t.Errorf("%v: got %q, %v", c.chain, p.Name, err)
		}
	}
}

// whoami answers with the principal's name, or 401 or 403.
func whoami(a auth.Authenticator) http.Handler {
	return auth.Protect(a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.FromContext(r.Context())
		_, _ = w.Write([]byte(p.Name))
	}), func(w http.ResponseWriter, _ *http.Request, err error) {
		code := http.StatusUnauthorized
		if errors.Is(err, auth.ErrCrossOrigin) {
			code = http.StatusForbidden
		}
		w.WriteHeader(code)
	})
}

func TestLoopbackIsForThisMachineOnly(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(whoami(auth.Loopback{}))
	defer server.Close()
	get := func(host string, header ...string) int {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
		r.Host = host
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		answer.Body.Close()
		return answer.StatusCode
	}
	for _, c := range []struct {
		code   int
		host   string
		header []string
	}{
		{200, "", nil}, {200, "localhost:80", nil}, {200, "[::1]:8080", nil}, {200, "127.9.9.9", nil},
		{401, "evil.example", nil}, {401, "evil.example:80", nil}, {401, "10.0.0.1", nil}, {401, "localhost.evil", nil},
		{401, "", []string{"X-Forwarded-For", "127.0.0.1"}}, {401, "", []string{"Forwarded", "for=127.0.0.1"}},
		{401, "", []string{"Via", "1.1 proxy"}}, {401, "", []string{"Authorization", "Bearer dbq_x"}},
		{403, "", []string{"Sec-Fetch-Site", "cross-site"}}, {403, "", []string{"Origin", "https://evil.example"}},
		{200, "", []string{"Sec-Fetch-Site", "same-origin"}},
	} {
		if got := get(c.host, c.header...); got != c.code {
			t.Errorf("host %q, %v: got %d, want %d", c.host, c.header, got, c.code)
		}
	}
	// Without a server there is no local address, and in doubt it refuses.
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	r.RemoteAddr = "127.0.0.1:1"
	if _, err := (auth.Loopback{}).Authenticate(r); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("without a local address: %v", err)
	}
}

func TestProxyIsTrustedFromItsAddressOnly(t *testing.T) {
	t.Parallel()
	p := auth.Proxy{
		From: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("fd00::/8")}, UserHeader: "X-User",
		GroupsHeader: "X-Groups",
		Rules: auth.Rules{
			{User: "root", Role: auth.Admin, Payloads: true},
			{Group: "ops", Role: auth.Operator, Queues: []string{"mail"}},
			{Group: "everybody", Role: auth.Viewer},
		},
	}
	check.OK(t, p.Check())
	for _, c := range []struct {
		from string
		user []string
		in   string
		role auth.Role // "" is refused
	}{
		{"10.0.0.7:1", []string{"root"}, "", auth.Admin},
		{"[::ffff:10.0.0.7]:1", []string{"root"}, "", auth.Admin},
		{"[fd00::1]:1", []string{"ann"}, "everybody, ops", auth.Operator},
		{"10.0.0.7:1", []string{"ann"}, "everybody", auth.Viewer},
		{"10.0.0.8:1", []string{"root"}, "", ""},
		{"127.0.0.1:1", []string{"root"}, "", ""},
		{"@", []string{"root"}, "", ""},
		{"10.0.0.7:1", []string{"bob"}, "opsx", ""},
		{"10.0.0.7:1", nil, "ops", ""},
		{"10.0.0.7:1", []string{""}, "ops", ""},
		{"10.0.0.7:1", []string{"ann", "root"}, "ops", ""},
		{"10.0.0.7:1", []string{"a\x00b"}, "ops", ""},
		{"10.0.0.7:1", []string{strings.Repeat("a", 201)}, "ops", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.from
		r.Header["X-User"] = c.user
		r.Header.Set("X-Groups", c.in)
		got, err := p.Authenticate(r)
		if got.Role != c.role || (c.role == "") != errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
	}
	for _, bad := range []auth.Proxy{
		{}, {From: p.From, Rules: p.Rules}, {From: p.From, UserHeader: "X-User"},
		{From: p.From, UserHeader: "X-User", Rules: auth.Rules{{User: "ann"}}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
