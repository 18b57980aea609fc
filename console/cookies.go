package console

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The names of the cookies, without their prefix.
const (
	sessionCookie = "dbq_session" // the number of parts, and the first part of the bearer token of a signed-in user
	flashCookie   = "dbq_message" // the message of the next page, once
)

// Browsers keep cookies of up to 4,096 bytes, with their name and attributes. The tokens of identity providers can be
// longer: they contain every group of a user.
const (
	sessionPart  = 3800 // bytes of a token in one cookie
	sessionParts = 4
)

var errLongToken = fmt.Errorf("the token has more than %d bytes", sessionParts*sessionPart)

// sessionName returns the name of the cookie with the ith part of a token.
func sessionName(i int) string {
	if i == 0 {
		return sessionCookie
	}
	return fmt.Sprintf("%s_%d", sessionCookie, i+1)
}

// cookieName returns a name with the prefix for which browsers accept a cookie by HTTPS only, and with __Host- only
// from this host: a site of the same domain, or a network without HTTPS, cannot set it.
func (c *Console) cookieName(r *http.Request, name string) string {
	switch {
	case !c.isHTTPS(r):
		return name
	case c.cfg.Prefix == "": // __Host- is for the path /
		return "__Host-" + name
	}
	return "__Secure-" + name
}

func (c *Console) cookie(r *http.Request, name string) (*http.Cookie, error) {
	return r.Cookie(c.cookieName(r, name))
}

// sessionToken returns the token of the session's cookies, or "". The first one begins with their number: another
// console of the host, below this one's path or above it, may have set more.
func (c *Console) sessionToken(r *http.Request) (token string) {
	first, err := c.cookie(r, sessionCookie)
	if err != nil {
		return ""
	}
	text, token, ok := strings.Cut(first.Value, ".")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n > sessionParts {
		return ""
	}
	for i := 1; i < n; i++ {
		cookie, err := c.cookie(r, sessionName(i))
		if err != nil {
			return ""
		}
		token += cookie.Value
	}
	return token
}

// setSession sets the session's cookies, which last as long as the browser's session. It removes those without a part
// of the token, which can be empty. It returns errLongToken if they have no space for it.
func (c *Console) setSession(w http.ResponseWriter, r *http.Request, token string) error {
	if len(token) > sessionParts*sessionPart {
		return errLongToken
	}
	n := (len(token) + sessionPart - 1) / sessionPart
	for i := range sessionParts {
		part := token[:min(len(token), sessionPart)]
		token = token[len(part):]
		_, err := c.cookie(r, sessionName(i))
		switch {
		case i < n && i == 0:
			c.setCookie(w, r, sessionName(i), strconv.Itoa(n)+"."+part, 0)
		case i < n:
			c.setCookie(w, r, sessionName(i), part, 0)
		case !errors.Is(err, http.ErrNoCookie):
			c.setCookie(w, r, sessionName(i), "", -1)
		}
	}
	return nil
}

// setCookie sets a cookie that no script can read and no other site's page sends. With an age of 0, the cookie lasts as
// long as the browser's session; a negative one removes it.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, name, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(r, name), Value: value, Path: c.cfg.Prefix + "/", MaxAge: age, HttpOnly: true,
		Secure: c.isHTTPS(r), SameSite: http.SameSiteStrictMode,
	})
}

// isHTTPS reports whether the browser has sent a request by HTTPS, to this server or to a proxy before it.
func (c *Console) isHTTPS(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	trusted := func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }
	proto, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return r.TLS != nil ||
		err == nil && slices.ContainsFunc(c.cfg.Proxies, trusted) && strings.EqualFold(strings.TrimSpace(proto), "https")
}

// maxFlash is the length of a message in bytes.
const maxFlash = 500

// setFlash keeps a message for the next page.
func (v *visit) setFlash(message string) {
	message = strings.ToValidUTF8(message[:min(len(message), maxFlash)], "")
	v.console.setCookie(v.w, v.r, flashCookie, base64.RawURLEncoding.EncodeToString([]byte(message)), 60)
}

// flash returns the message for this page, and removes it.
func (v *visit) flash() string {
	cookie, err := v.console.cookie(v.r, flashCookie)
	if err != nil {
		return ""
	}
	v.console.setCookie(v.w, v.r, flashCookie, "", -1)
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	return string(text)
}
