// Package oidc authenticates callers of dbq's HTTP API by tokens of an OpenID Connect provider.
//
//	verifier, err := oidc.New(oidc.Config{
//		Issuer: "https://login.example", Audience: "dbq", Rules: auth.Rules{{Group: "ops", Role: auth.Operator}},
//	})
//	handler, err := api.New(api.Config{Databases: clients, Authenticator: verifier})
package oidc

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/dbq-go/dbq/auth"
)

// Config configures a Verifier. Issuer, Audience and Rules are required.
type Config struct {
	// Issuer is the provider's URL: the claim iss of its tokens, below which the provider serves its discovery
	// document. It must be https, unless its host is this machine.
	Issuer string `yaml:"issuer"`
	// Audience is the name that the provider has for this API, such as a client id: tokens must have it in their claim
	// aud.
	Audience string `yaml:"audience"`
	// UserClaim is the claim with the user's name, for the rules and the audit. Choose one that users cannot change.
	// The default is sub. For email, the token must also have email_verified.
	UserClaim string `yaml:"user_claim"`
	// GroupsClaim is the claim with the user's groups: a list of texts, or one text. Dots lead into objects, as in
	// realm_access.roles. The default is groups.
	GroupsClaim string `yaml:"groups_claim"`
	// Rules give users and groups their rights.
	Rules auth.Rules `yaml:"rules"`
	// Algorithms are those that may sign tokens. All are asymmetric. The default is all of RS256, RS384, RS512, PS256,
	// PS384, PS512, ES256, ES384, ES512 and EdDSA.
	Algorithms []string `yaml:"algorithms"`
	// Skew is how far the provider's clock may be from this machine's, up to 5 minutes. The default is 30 seconds.
	Skew time.Duration `yaml:"skew"`
	// Client sends the requests to the provider. The default has a time-out of 10 seconds and follows no redirects.
	Client *http.Client `yaml:"-"`
}

const (
	maxSkew     = 5 * time.Minute
	maxToken    = 16 << 10 // bytes
	maxDocument = 1 << 20  // bytes of a response of the provider
	// After refresh, the provider's document and keys are read again, so that a withdrawn key is not accepted for
	// longer. If that fails, the known ones are used until keep has passed.
	refresh = time.Hour
	keep    = 24 * time.Hour
	// pause is the least time between two tries to read the document, and between two requests for keys. A token with
	// an unknown key causes such a request.
	pause = 10 * time.Second
	// discoverTimeout limits the reading of the document and the keys. It is shorter than the API's limit.
	discoverTimeout = 4 * time.Second
)

var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Verifier authenticates requests by ID tokens, and by access tokens that are JWTs, as bearer tokens. It is safe for
// concurrent use.
type Verifier struct {
	cfg   Config
	now   func() time.Time
	pause time.Duration

	known      atomic.Pointer[provider] // nil until the first success
	refreshing chan struct{}            // one element while a request reads the provider's document
	triedAt    time.Time                // these two belong to that request
	tryError   error
}

// provider has the known facts about the provider.
type provider struct {
	verifier *oidc.IDTokenVerifier
	at       time.Time
}

// New returns a Verifier, or an error that describes the problem of the configuration. It sends nothing: the provider's
// discovery document and keys are read when the first token arrives.
func New(cfg Config) (*Verifier, error) {
	cfg.UserClaim, cfg.GroupsClaim = cmp.Or(cfg.UserClaim, "sub"), cmp.Or(cfg.GroupsClaim, "groups")
	cfg.Skew = cmp.Or(cfg.Skew, 30*time.Second)
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = algorithms
	}
	switch {
	case !secure(cfg.Issuer):
		return nil, errors.New("oidc: issuer is not an https URL without query and fragment")
	case cfg.Audience == "":
		return nil, errors.New("oidc: audience is missing; without it, tokens for other programs would be accepted")
	case cfg.Skew < 0 || cfg.Skew > maxSkew:
		return nil, fmt.Errorf("oidc: skew is %v; it must be 0 to %v", cfg.Skew, maxSkew)
	}
	for _, a := range cfg.Algorithms {
		if !slices.Contains(algorithms, a) {
			return nil, fmt.Errorf("oidc: algorithms must be of %s", strings.Join(algorithms, ", "))
		}
	}
	if err := cfg.Rules.Check(); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	client := http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	client.Transport = bounded{cmp.Or(client.Transport, http.DefaultTransport)}
	cfg.Client = &client
	return &Verifier{cfg: cfg, now: time.Now, pause: pause, refreshing: make(chan struct{}, 1)}, nil
}

// secure reports whether requests to a URL are encrypted or stay on this machine.
func secure(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && address.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}

// claims are the claims of a token that go-oidc does not check.
type claims struct {
	Issuer    string          `json:"iss"`
	NotBefore float64         `json:"nbf"`
	Events    json.RawMessage `json:"events"` // of a logout token, which authenticates no one
}

// Authenticate implements auth.Authenticator. A bearer token that is not a JWT of this issuer is not of its kind, so an
// auth.Chain tries its next Authenticator. If the provider cannot be reached, it returns auth.ErrUnavailable.
func (v *Verifier) Authenticate(r *http.Request) (auth.Principal, error) {
	token, ok := auth.Bearer(r)
	if !ok || issuerOf(token) != v.cfg.Issuer {
		return auth.Principal{}, auth.ErrUnauthenticated
	}
	ctx, unreachable := r.Context(), error(nil)
	p, err := v.provider(ctx)
	if err != nil {
		return auth.Principal{}, fmt.Errorf("oidc: %w: %w", auth.ErrUnavailable, err)
	}
	verified, err := p.verifier.Verify(context.WithValue(ctx, unreachableKey{}, &unreachable), token)
	if unreachable != nil {
		return auth.Principal{}, fmt.Errorf("oidc: %w: %w", auth.ErrUnavailable, unreachable)
	}
	var c claims
	var all map[string]any
	if err != nil || verified.Claims(&c) != nil || verified.Claims(&all) != nil || misspelled(all) {
		return auth.Principal{}, auth.Refused()
	}
	user, _ := all[v.cfg.UserClaim].(string)
	switch {
	case c.NotBefore > float64(v.now().Add(v.cfg.Skew).Unix()), verified.IssuedAt.After(v.now().Add(v.cfg.Skew)):
		return auth.Principal{}, auth.Refused()
	case c.Events != nil, verified.Subject == "", v.cfg.UserClaim == "email" && all["email_verified"] != true:
		return auth.Principal{}, auth.Refused()
	}
	return v.cfg.Rules.Principal(user, texts(claim(all, v.cfg.GroupsClaim)))
}

// checkedClaims are the claims that are checked, here or by go-oidc.
var checkedClaims = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "events", "at_hash", "nonce", "_claim_names", "_claim_sources",
}

// misspelled reports whether a claim that is checked is written in another case. encoding/json, by which go-oidc reads
// them, would take it for the claim, although it is another one.
func misspelled(all map[string]any) bool {
	for name := range all {
		for _, checked := range checkedClaims {
			if name != checked && strings.EqualFold(name, checked) {
				return true
			}
		}
	}
	return false
}

// issuerOf returns the claim iss of a JWT before it is verified, or "".
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var c struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return ""
	}
	return c.Issuer
}

// claim returns the value of a claim, or nil. Dots lead into objects.
func claim(all map[string]any, name string) any {
	if v, ok := all[name]; ok {
		return v
	}
	first, rest, ok := strings.Cut(name, ".")
	inner, isObject := all[first].(map[string]any)
	if !ok || !isObject {
		return nil
	}
	return claim(inner, rest)
}

// texts returns a text, or the texts of a list.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// provider returns the facts about the provider, and reads them if they are unknown or old.
func (v *Verifier) provider(ctx context.Context) (*provider, error) {
	p := v.known.Load()
	if p != nil && v.now().Sub(p.at) < refresh {
		return p, nil
	}
	if p != nil && v.now().Sub(p.at) < keep {
		select {
		case v.refreshing <- struct{}{}:
		default: // another request does it
			return p, nil
		}
	} else {
		select {
		case v.refreshing <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() { <-v.refreshing }()
	if now := v.known.Load(); now != p { // another request has done it
		return now, nil
	}
	if v.now().Sub(v.triedAt) >= v.pause {
		v.triedAt = v.now()
		var fresh *provider
		if fresh, v.tryError = v.discover(ctx); v.tryError == nil {
			v.known.Store(fresh)
			return fresh, nil
		}
	}
	if p != nil && v.now().Sub(p.at) < keep {
		return p, nil
	}
	return nil, v.tryError
}

// discover reads the provider's document and keys.
func (v *Verifier) discover(ctx context.Context) (*provider, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discoverTimeout) // the next request needs it, too
	defer cancel()
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, v.cfg.Client), v.cfg.Issuer)
	if err != nil {
		return nil, errors.New(hostOnly(err))
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := found.Claims(&document); err != nil || !secure(document.Keys) {
		return nil, errors.New("the jwks_uri of the provider is not an https URL")
	}
	paced := *v.cfg.Client
	paced.Transport = &pacedTransport{next: paced.Transport, pause: v.pause}
	keys := keySet{oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), &paced), document.Keys)}
	if err := keys.read(ctx); err != nil {
		return nil, err
	}
	return &provider{at: v.now(), verifier: oidc.NewVerifier(v.cfg.Issuer, keys, &oidc.Config{
		ClientID: v.cfg.Audience, SupportedSigningAlgs: v.cfg.Algorithms,
		Now: func() time.Time { return v.now().Add(-v.cfg.Skew) },
	})}, nil
}

// hostOnly returns the text of an error without the URL of a request and without a response's body.
func hostOnly(err error) string {
	var request *url.Error
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		return "the provider cannot be reached: " + network.Error()
	case errors.As(err, &request):
		return "the provider cannot be reached: " + request.Err.Error()
	}
	return "the discovery document of the provider cannot be used; check that issuer is spelled as in the document"
}
