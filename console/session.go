package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/callers"
)

// sessionFor is how long a session may read pages after its token was revoked. Open pages are refreshed all the time,
// and each check of a token reads the database. A form always checks the token.
const sessionFor = 10 * time.Second

// sessionKey is a session, without its token, as one address uses it: an authenticator may refuse others.
type sessionKey struct {
	token   [sha256.Size]byte
	address string
}

// session returns the principal of a session's token.
func (c *Console) session(r *http.Request, token string) (auth.Principal, error) {
	check := func(ctx context.Context) (auth.Principal, error) {
		return c.cfg.Authenticator.Authenticate(withToken(r.WithContext(ctx), token))
	}
	if r.Method != http.MethodGet {
		return check(r.Context())
	}
	return c.sessions.get(r.Context(), sessionKey{sha256.Sum256([]byte(token)), callers.Address(r)}, check)
}

// signedIn returns the authenticator of the pages: the token of the session's cookies or, if there is none or it is no
// longer valid, the request's own credentials.
func (c *Console) signedIn() auth.Authenticator {
	return authenticatorFunc(func(r *http.Request) (auth.Principal, error) {
		if !c.checking.Take(callers.Address(r), 1) {
			return auth.Principal{}, errBusy
		}
		defer c.checking.Release(callers.Address(r), 1)
		if token := c.sessionToken(r); token != "" && r.Header.Get("Authorization") == "" {
			p, err := c.session(r, token)
			if !errors.Is(err, auth.ErrUnauthenticated) {
				return p, err
			}
		}
		return c.cfg.Authenticator.Authenticate(r)
	})
}

type authenticatorFunc func(*http.Request) (auth.Principal, error)

// Authenticate implements auth.Authenticator.
func (f authenticatorFunc) Authenticate(r *http.Request) (auth.Principal, error) { return f(r) }

// withToken returns a request whose only credentials are a bearer token. If the request kept its own, such as a proxy's
// header, another principal than the token's could result, and pages would remember it for the token's other users.
func withToken(r *http.Request, token string) *http.Request {
	r = r.Clone(r.Context())
	r.Header, r.TLS = http.Header{"Authorization": {"Bearer " + token}}, nil
	return r
}

// refused answers a request that auth.Protect refuses: a page to read leads to the form that signs in. A page that
// refreshes itself gets a status instead: the form would replace its content.
func (c *Console) refused(w http.ResponseWriter, r *http.Request, err error) {
	v := &visit{console: c, w: w, r: r}
	switch {
	case errors.Is(err, auth.ErrCrossOrigin):
		v.showError(errForbidden)
	case errors.Is(err, auth.ErrUnauthenticated) && r.Header.Get("HX-Request") != "":
		http.Error(w, "Your session has ended. Sign in again.", http.StatusUnauthorized)
	case errors.Is(err, auth.ErrUnauthenticated):
		http.Redirect(w, r, c.signInLink(r), http.StatusSeeOther)
	default:
		v.showError(err)
	}
}

// signInLink returns the path of the form that signs in, which leads back to the page of a request.
func (c *Console) signInLink(r *http.Request) string {
	to := ""
	if r.Method == http.MethodGet {
		to = r.URL.RequestURI()
	}
	return link(c.cfg.Prefix+"/login", "to", to)
}

// loginForm is the content of the form that signs in.
type loginForm struct {
	To      string
	Refused bool
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	v := &visit{console: c, w: w, r: r}
	if err := readForm(w, r, maxForm); err != nil {
		v.showError(err)
		return
	}
	v.show(http.StatusOK, "login", "Sign in", loginForm{To: r.FormValue("to")})
}

// login checks a token and keeps it in the session's cookies.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	v := &visit{console: c, w: w, r: r}
	var origins http.CrossOriginProtection
	if origins.Check(r) != nil {
		v.showError(errForbidden)
		return
	}
	err := v.limited("address " + callers.Address(r))
	if err == nil {
		err = readForm(w, r, maxForm)
	}
	if err != nil {
		v.showError(err)
		return
	}
	if !c.checking.Take(callers.Address(r), 1) { // not while the form arrives
		v.showError(errBusy)
		return
	}
	defer c.checking.Release(callers.Address(r), 1)
	token, to := v.form("token"), r.FormValue("to")
	_, err = c.cfg.Authenticator.Authenticate(withToken(r, token))
	switch {
	case errors.Is(err, auth.ErrUnauthenticated) || token == "" || strings.ContainsAny(token, "\r\n\";, \\"):
		v.show(http.StatusUnauthorized, "login", "Sign in", loginForm{To: to, Refused: true})
		return
	case err != nil:
		v.showError(err)
		return
	}
	if err := c.setSession(w, r, token); err != nil {
		v.showError(err)
		return
	}
	http.Redirect(w, r, c.cfg.Prefix+localPath(to), http.StatusSeeOther)
}

// localPath returns a path of this console. A path that a browser may take for an address of another site, such as
// "//host", becomes the root.
func localPath(to string) string {
	u, err := url.Parse(to) // it refuses control characters, which browsers remove
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") ||
		strings.Contains(to, "\\") {
		return "/"
	}
	return to
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	var origins http.CrossOriginProtection
	if origins.Check(r) == nil {
		_ = c.setSession(w, r, "") // it is not too long
	}
	http.Redirect(w, r, c.cfg.Prefix+"/login", http.StatusSeeOther)
}
