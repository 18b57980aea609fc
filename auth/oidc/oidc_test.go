package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/dbq-go/dbq/auth"
)

// issuer is a provider on this machine.
type issuer struct {
	t           testing.TB
	url         string
	keys        map[string]crypto.Signer // by id
	down        atomic.Bool
	lost        atomic.Bool // the keys, but not the document
	keyRequests atomic.Int64

	mu     sync.Mutex
	server *oidctest.Server
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{t: t, keys: map[string]crypto.Signer{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() || r.URL.Path == "/keys" && i.lost.Load() {
			http.Error(w, "planted", http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/keys" {
			i.keyRequests.Add(1)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.server.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	i.url = s.URL
	i.rotate("k1")
	return i
}

// rotate makes new keys the only ones.
func (i *issuer) rotate(ids ...string) {
	i.t.Helper()
	s := &oidctest.Server{Algorithms: []string{oidc.ES256}}
	s.SetIssuer(i.url)
	for _, id := range ids {
		if i.keys[id] == nil {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				i.t.Fatal(err)
			}
			i.keys[id] = key
		}
		s.PublicKeys = append(s.PublicKeys,
			oidctest.PublicKey{PublicKey: i.keys[id].Public(), KeyID: id, Algorithm: oidc.ES256})
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.server = s
}

// token returns a token with the usual claims, some of which are changed; nil removes one.
func (i *issuer) token(key string, change map[string]any) string {
	i.t.Helper()
	c := map[string]any{"iss": i.url, "aud": []string{"other", "dbq"}, "sub": "ann", "exp": time.Now().Unix() + 60,
		"iat": time.Now().Unix(), "groups": []any{"staff", "ops"}}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(c)
	if err != nil {
		i.t.Fatal(err)
	}
	return oidctest.SignIDToken(i.keys[key], key, oidc.ES256, string(text))
}

func (i *issuer) verifier(change func(*Config)) *Verifier {
	i.t.Helper()
	cfg := Config{Issuer: i.url, Audience: "dbq", Rules: auth.Rules{
		{Group: "ops", Role: auth.Operator, Queues: []string{"mail"}, Databases: []string{"shop"}, Payloads: true},
		{User: "bob", Role: auth.Viewer},
	}}
	if change != nil {
		change(&cfg)
	}
	v, err := New(cfg)
	if err != nil {
		i.t.Fatal(err)
	}
	v.pause = time.Millisecond
	return v
}

func authenticate(a auth.Authenticator, token string) (auth.Principal, error) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return a.Authenticate(r)
}

func TestClaimsGiveTheRightsOfTheRules(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, err := authenticate(i.verifier(nil), i.token("k1", nil))
	if err != nil || p.Name != "ann" || p.Role != auth.Operator || !slices.Equal(p.Queues, []string{"mail"}) ||
		!slices.Equal(p.Databases, []string{"shop"}) || !p.Payloads {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, c := range []struct {
		user, groups string
		claims       map[string]any
		want         string // "" is refused
	}{
		{"", "", map[string]any{"groups": nil}, ""},
		{"", "", map[string]any{"groups": "ops"}, "ann"},
		{"", "", map[string]any{"groups": []any{"staff", 7}}, ""},
		{"", "", map[string]any{"groups": nil, "sub": "bob"}, "bob"},
		{"", "", map[string]any{"sub": "token:deploy"}, ""},
		{"", "realm_access.roles", map[string]any{"realm_access": map[string]any{"roles": []string{"ops"}}}, "ann"},
		{"", "realm_access.roles", map[string]any{"realm_access": "ops"}, ""},
		{"", "https://a.example/roles", map[string]any{"https://a.example/roles": []string{"ops"}}, "ann"},
		{"email", "", map[string]any{"email": "a@b.example", "email_verified": true}, "a@b.example"},
		{"email", "", map[string]any{"email": "a@b.example"}, ""},
		{"email", "", map[string]any{"email_verified": true}, ""},
		{"name", "", map[string]any{"name": 7}, ""},
	} {
		v := i.verifier(func(cfg *Config) { cfg.UserClaim, cfg.GroupsClaim = c.user, c.groups })
		p, err := authenticate(v, i.token("k1", c.claims))
		if p.Name != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%s %s with %v: %+v, %v, want %q", c.user, c.groups, c.claims, p, err, c.want)
		}
	}
}

func TestWrongTokensAreRefused(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	v := i.verifier(nil)
	now := time.Now().Unix()
	good := i.token("k1", nil)
	if _, err := authenticate(v, good); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	bob := `{"iss":"` + i.url + `","aud":"dbq","sub":"bob","exp":9999999999}`
	forged := base64.RawURLEncoding.EncodeToString([]byte(bob))
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	hmac := oidctest.SignIDToken([]byte(strings.Repeat("k", 32)), "k1", "HS256", bob)
	stranger := newIssuer(t)
	for what, token := range map[string]string{
		"expired":              i.token("k1", map[string]any{"exp": now - 40}),
		"without expiry":       i.token("k1", map[string]any{"exp": nil}),
		"not yet valid":        i.token("k1", map[string]any{"nbf": now + 40}),
		"issued in the future": i.token("k1", map[string]any{"iat": now + 40}),
		"another audience":     i.token("k1", map[string]any{"aud": "other"}),
		"AUD":                  i.token("k1", map[string]any{"aud": nil, "AUD": "dbq"}),
		"another aud and AUD":  i.token("k1", map[string]any{"aud": "other", "AUD": "dbq"}),
		"EXP":                  i.token("k1", map[string]any{"exp": nil, "EXP": time.Now().Unix() + 60}),
		"expired, and Exp":     i.token("k1", map[string]any{"exp": 1, "\u0065xP": time.Now().Unix() + 60}),
		"\u017fub":             i.token("k1", map[string]any{"\u017fub": "bob"}),
		"without audience":     i.token("k1", map[string]any{"aud": nil}),
		"without subject":      i.token("k1", map[string]any{"sub": nil}),
		"a logout token":       i.token("k1", map[string]any{"events": map[string]any{"x": 1}}),
		"another signature":    stranger.token("k1", map[string]any{"iss": i.url}),
		"other claims":         parts[0] + "." + forged + "." + parts[2],
		"alg none":             none + "." + forged + ".",
		"HMAC":                 hmac,
		"cut":                  good[:len(good)-10],
	} {
		p, err := authenticate(auth.Chain{v, everyone{}}, token)
		if !errors.Is(err, auth.ErrUnauthenticated) || p.Name != "" {
			t.Errorf("a token that is %s: %+v, %v", what, p, err)
		}
	}
	for what, token := range map[string]string{
		"within the skew, expired": i.token("k1", map[string]any{"exp": now - 20}),
		"within the skew, early":   i.token("k1", map[string]any{"nbf": now + 20, "iat": now + 20}),
	} {
		if _, err := authenticate(v, token); err != nil {
			t.Errorf("a token that is %s: %v", what, err)
		}
	}
	narrow := i.verifier(func(c *Config) { c.Algorithms = []string{oidc.RS256} })
	if _, err := authenticate(narrow, good); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("another algorithm: %v", err)
	}
}

// everyone accepts every request.
type everyone struct{}

func (everyone) Authenticate(*http.Request) (auth.Principal, error) {
	return auth.Principal{Name: "everyone"}, nil
}

func TestOtherTokensAreLeftToTheChain(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	v := i.verifier(nil)
	for _, token := range []string{
		"dbq_0123456789abcdef_0", "a.b.c", "x", other.token("k1", nil), strings.Repeat("a.", 9),
	} {
		if p, err := authenticate(auth.Chain{v, everyone{}}, token); err != nil || p.Name != "everyone" {
			t.Errorf("%.20s: %+v, %v", token, p, err)
		}
	}
	if n := i.keyRequests.Load(); n != 0 || v.known.Load() != nil {
		t.Errorf("they caused %d requests", n)
	}
	both := auth.Chain{v, other.verifier(nil)}
	if p, err := authenticate(both, other.token("k1", nil)); err != nil || p.Name != "ann" {
		t.Errorf("two providers: %+v, %v", p, err)
	}
}

// TestKeysAreRotated replaces the key of the provider, twice.
func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	v := i.verifier(nil)
	accepts := func(key string, want bool) {
		t.Helper()
		time.Sleep(2 * v.pause)
		_, err := authenticate(v, i.token(key, nil))
		if (err == nil) != want || !want && !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("a token of key %s: %v, want accepted: %t", key, err, want)
		}
	}
	accepts("k1", true)
	i.rotate("k1", "k2")
	accepts("k2", true)
	accepts("k1", true)
	i.rotate("k2", "k3")
	accepts("k3", true)
	accepts("k1", false)
	i.rotate("k4")
	start := time.Now()
	// No token of k4 was seen. After a while, k3 is refused too.
	v.now = func() time.Time { return time.Now().Add(refresh) }
	late := map[string]any{"exp": start.Add(2 * refresh).Unix()}
	if _, err := authenticate(v, i.token("k3", late)); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("a token of a withdrawn key: %v", err)
	}
}

// TestProviderThatIsDownIsReported uses a verifier before it has reached the provider, and after.
func TestProviderThatIsDownIsReported(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.down.Store(true)
	v := i.verifier(nil)
	token := i.token("k1", nil)
	for range 2 {
		_, err := authenticate(v, token)
		if !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrUnauthenticated) ||
			strings.Contains(err.Error(), "planted") {
			t.Errorf("got %v", err)
		}
	}
	i.down.Store(false)
	time.Sleep(2 * v.pause)
	if _, err := authenticate(v, token); err != nil {
		t.Error(err)
	}
	i.down.Store(true)
	if _, err := authenticate(v, token); err != nil {
		t.Errorf("with known keys: %v", err)
	}
	i.keys["k9"] = i.keys["k1"]
	time.Sleep(2 * v.pause)
	if _, err := authenticate(v, i.token("k9", nil)); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("an unknown key while the provider is down: %v", err)
	}
	v.now = func() time.Time { return time.Now().Add(2 * refresh) }
	if _, err := authenticate(v, i.token("k1", map[string]any{"exp": time.Now().Add(3 * refresh).Unix()})); err != nil {
		t.Errorf("with old keys: %v", err)
	}
	v.now = func() time.Time { return time.Now().Add(2 * keep) }
	time.Sleep(2 * v.pause)
	if _, err := authenticate(v, token); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("with too old keys: %v", err)
	}
}

// A refresh that finds the document and not the keys keeps the known keys.
func TestKeysThatCannotBeReadAreKept(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	v := i.verifier(nil)
	token := i.token("k1", map[string]any{"exp": time.Now().Add(3 * refresh).Unix()})
	if _, err := authenticate(v, token); err != nil {
		t.Fatal(err)
	}
	i.lost.Store(true)
	v.now = func() time.Time { return time.Now().Add(2 * refresh) }
	for range 3 {
		time.Sleep(2 * v.pause)
		if _, err := authenticate(v, token); err != nil {
			t.Errorf("with known keys: %v", err)
		}
	}
	i.lost.Store(false)
	i.rotate("k2")
	time.Sleep(2 * v.pause)
	if _, err := authenticate(v, token); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("after the next refresh, a token of a withdrawn key: %v", err)
	}
}

// TestFloodOfUnknownKeysRarelyReachesTheProvider sends many tokens with forged keys at once.
func TestFloodOfUnknownKeysRarelyReachesTheProvider(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	v := i.verifier(nil)
	v.pause = time.Hour
	good := i.token("k1", nil)
	if _, err := authenticate(v, good); err != nil {
		t.Fatal(err)
	}
	i.keys["k9"] = newIssuer(t).keys["k1"]
	forged := i.token("k9", nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := authenticate(v, forged); !errors.Is(err, auth.ErrUnauthenticated) {
				t.Error(err)
			}
			if _, err := authenticate(v, good); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := i.keyRequests.Load(); n > 2 {
		t.Errorf("the provider was asked for keys %d times", n)
	}
}

func TestInvalidConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"https", func(c *Config) { c.Issuer = "" }},
		{"https", func(c *Config) { c.Issuer = "http://login.example" }},
		{"https", func(c *Config) { c.Issuer = "https://u:planted@login.example" }},
		{"https", func(c *Config) { c.Issuer = "https://login.example?planted" }},
		{"audience", func(c *Config) { c.Audience = "" }},
		{"skew", func(c *Config) { c.Skew = time.Hour }},
		{"algorithms", func(c *Config) { c.Algorithms = []string{"none"} }},
		{"algorithms", func(c *Config) { c.Algorithms = []string{"HS256"} }},
		{"rules", func(c *Config) { c.Rules = nil }},
		{"role", func(c *Config) { c.Rules = auth.Rules{{User: "ann"}} }},
	} {
		cfg := Config{Issuer: "https://login.example", Audience: "dbq", Rules: auth.Rules{{Role: auth.Viewer}}}
		c.change(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
