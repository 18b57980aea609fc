package oidc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// unreachableKey is the key of the context's *error, which is set if the provider's keys cannot be read.
type unreachableKey struct{}

var errKeys = errors.New("the keys of the provider cannot be read")

// keySet reports in the context whether the keys could be read. The error of an oidc.IDTokenVerifier does not have it.
type keySet struct{ oidc.KeySet }

// VerifySignature implements oidc.KeySet.
func (k keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, token)
	if to, ok := ctx.Value(unreachableKey{}).(*error); ok && isFetch(err) {
		*to = errKeys
	}
	return payload, err
}

func isFetch(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "fetching keys") }

// unsigned is a token that no key verifies: {"alg":"RS256"}, {} and a signature of one byte.
const unsigned = "eyJhbGciOiJSUzI1NiJ9.e30.AA"

// read reads the keys, which an oidc.RemoteKeySet otherwise does for the first token.
func (k keySet) read(ctx context.Context) error {
	if _, err := k.KeySet.VerifySignature(ctx, unsigned); isFetch(err) {
		return errKeys
	}
	return nil
}

// bounded bounds the size of responses.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxDocument), response.Body}
	}
	return response, err
}

// pacedTransport repeats its last response to a GET request until the pause has passed.
type pacedTransport struct {
	next  http.RoundTripper
	pause time.Duration

	mu       sync.Mutex // the requests follow each other anyhow
	at       time.Time
	response http.Response
	body     []byte
	err      error
}

// RoundTrip implements http.RoundTripper.
func (p *pacedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= p.pause {
		p.err = p.read(r)
		p.at = time.Now()
	}
	if p.err != nil {
		return nil, p.err
	}
	response := p.response
	response.Header, response.Body = response.Header.Clone(), io.NopCloser(bytes.NewReader(p.body))
	return &response, nil
}

func (p *pacedTransport) read(r *http.Request) error {
	response, err := p.next.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	p.response = *response
	p.body, err = io.ReadAll(response.Body)
	return err
}
