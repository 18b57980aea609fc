package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/internal/duration"
)

// Endpoint is a URL to which messages are sent. URL and Secrets are required. For every other field, zero means the
// documented default.
//
// Requests go only to allowed hosts and to public addresses. They ignore the environment's proxy settings and do not
// follow redirects.
type Endpoint struct {
	// URL is the address to which the messages are POSTed. It must be https, unless PlainHTTP allows http. It may
	// contain a token in its path or query, but no user and password: set Header instead.
	URL string
	// Secrets sign each message. Rotate a secret in three steps: add the new one here, replace the old one at the
	// receiver, remove it here.
	Secrets []Secret
	// Hosts are the hosts that URL may name: shop.example, shop.example:8443, or *.shop.example for the names below
	// shop.example. A host without a port allows the default port of https and http. Set them if URL is not the
	// operator's own choice. The default is the host of URL.
	Hosts []string
	// Networks are the networks of non-public addresses that may be connected to, such as 10.1.0.0/16 or 127.0.0.0/8.
	// Each address is checked after its name has been resolved. The default is none: private, loopback, link-local and
	// metadata addresses are refused.
	Networks []netip.Prefix
	// PlainHTTP allows http, without encryption. The default is https only.
	PlainHTTP bool
	// Header is added to each request, such as Authorization. It cannot replace the headers of the signature.
	Header http.Header
	// TLS can add certificate authorities and a client certificate. It must not set InsecureSkipVerify. The default is
	// the system's authorities.
	TLS *tls.Config
	// Timeout limits one request, including its response. The default is 30 seconds.
	Timeout time.Duration
	// MaxFailures is the number of consecutive failures after which the circuit breaker opens. A failure is a network
	// error or a status of 500 and above. The default is 5.
	MaxFailures int
	// Pause is how long the circuit breaker stays open. Meanwhile the worker checks out no tasks, and those that it
	// holds are released without using an attempt. Then one request tries the endpoint. The default is 10 seconds.
	Pause time.Duration
}

// maxResponse is how many bytes of a response are read.
const maxResponse = 64 << 10

// sender sends messages to an endpoint.
type sender struct {
	Endpoint
	host    string // for errors and the log: the rest of the URL may be secret
	client  *http.Client
	breaker *breaker
	now     func() time.Time
}

func newSender(e Endpoint) (*sender, error) {
	if err := checkSecrets(e.Secrets); err != nil {
		return nil, err
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, invalid("the URL is not of the form https://host/path") // the error would show it
	case u.Scheme == "http" && !e.PlainHTTP:
		return nil, invalid("the URL is not https; use https, or set PlainHTTP")
	case u.User != nil:
		return nil, invalid("the URL has a user; set Header instead")
	case !allowed(u, e.Hosts):
		return nil, invalid("the URL's host is not one of Hosts")
	case e.TLS != nil && e.TLS.InsecureSkipVerify:
		return nil, invalid("TLS does not verify the server; set RootCAs instead of InsecureSkipVerify")
	case e.Timeout < 0 || e.MaxFailures < 0 || e.Pause < 0:
		return nil, invalid("Timeout, MaxFailures and Pause must not be negative")
	}
	e.Timeout, e.Secrets = cmp.Or(e.Timeout, 30*time.Second), slices.Clone(e.Secrets)
	u.Fragment = ""
	e.URL = u.String()
	dialer := &net.Dialer{Timeout: e.Timeout, Control: control(slices.Clone(e.Networks))}
	secure := &tls.Config{}
	if e.TLS != nil {
		secure = e.TLS.Clone()
	}
	secure.MinVersion = max(secure.MinVersion, tls.VersionTLS12)
	return &sender{
		Endpoint: e, host: u.Host, now: time.Now,
		breaker: newBreaker(cmp.Or(e.MaxFailures, 5), cmp.Or(e.Pause, 10*time.Second)),
		client: &http.Client{
			Transport: &http.Transport{ // without a proxy, which would connect to addresses that control does not see
				DialContext: dialer.DialContext, TLSClientConfig: secure, ForceAttemptHTTP2: true,
				MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxResponse,
				DisableCompression: true, // no response grows while it is read
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// allowed reports whether the URL's host is one of the hosts.
func allowed(u *url.URL, hosts []string) bool {
	if len(hosts) == 0 {
		return true
	}
	name, port := strings.ToLower(u.Hostname()), u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		port = ""
	}
	return slices.ContainsFunc(hosts, func(host string) bool {
		host, hostPort := strings.ToLower(host), ""
		if h, p, err := net.SplitHostPort(host); err == nil {
			host, hostPort = h, p
		}
		below, wildcard := strings.CutPrefix(host, "*")
		return port == hostPort &&
			(name == strings.Trim(host, "[]") || wildcard && strings.HasPrefix(below, ".") && strings.HasSuffix(name, below))
	})
}

// response is an endpoint's response.
type response struct {
	status     int
	retryAfter time.Duration // 0 is none
	body       []byte        // at most maxResponse bytes
}

func (a response) ok() bool { return a.status >= 200 && a.status < 300 }

// retryable reports whether a later request may succeed without any change to it.
func (a response) retryable() bool {
	return a.status >= 500 || a.status == http.StatusTooManyRequests || a.status == http.StatusRequestTimeout ||
		a.status == http.StatusTooEarly
}

// errPaused is returned by post while the circuit breaker is open.
var errPaused = errors.New("the circuit breaker is open")

// post sends a message. Errors name the endpoint's host only.
func (s *sender) post(ctx context.Context, id string, header http.Header, body []byte) (response, error) {
	done, ended, err := s.breaker.allow()
	if err != nil {
		return response{}, errPaused
	}
	defer ended()
	a, err := s.send(ctx, id, header, body)
	switch {
	case err != nil && ctx.Err() != nil: // the worker's decision
		done(errAborted)
	case err == nil && a.status >= 500:
		done(a.err(s.host))
	default:
		done(err)
	}
	return a, err
}

func (s *sender) send(parent context.Context, id string, header http.Header, body []byte) (a response, err error) {
	ctx, cancel := context.WithTimeout(parent, s.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return a, fmt.Errorf("bridge: POST to %s: the request is invalid", s.host)
	}
	for _, from := range []http.Header{header, s.Header} {
		for name, values := range from {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	sign(req.Header, s.Secrets, id, s.now(), body)
	resp, err := s.client.Do(req)
	if err != nil {
		var outer *url.Error // its text has the URL
		if errors.As(err, &outer) {
			err = outer.Err
		}
		if parent.Err() == nil && ctx.Err() != nil {
			err = fmt.Errorf("no response within %v", s.Timeout)
		}
		return a, fmt.Errorf("bridge: POST to %s: %w", s.host, err)
	}
	defer resp.Body.Close()
	a = response{status: resp.StatusCode, retryAfter: duration.RetryAfter(resp.Header.Get("Retry-After"), s.now())}
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxResponse)); err != nil && !a.ok() {
		err = nil // the status is enough
	}
	if err != nil {
		return a, fmt.Errorf("bridge: POST to %s: reading the response: %w", s.host, err)
	}
	return a, nil
}

// err returns the error for a response that is not ok, without its body.
func (a response) err(host string) error {
	return fmt.Errorf("bridge: POST to %s: the response is %d %s", host, a.status, http.StatusText(a.status))
}
