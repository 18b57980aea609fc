//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// certify writes a new certificate of 127.0.0.1 and its key to files, and returns a pool that has only it.
func (u *user) certify(cert, key string, serial int64) *x509.CertPool {
	u.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		u.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "dbq test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		u.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		u.t.Fatal(err)
	}
	u.write(cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	u.write(key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		u.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// trusting returns a client that accepts only the certificates of a pool, and connects for each request.
func trusting(pool *x509.CertPool) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
}

// TestServeRenewsItsCertificate replaces the files of a certificate while a server uses it, also by files that do not
// belong together.
func TestServeRenewsItsCertificate(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	old := trusting(u.certify("cert.pem", "key.pem", 1))
	s := u.serve("--dsn", "a.db", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("it serves %s", s.url)
	}
	answers := func(c *http.Client) bool {
		r, err := c.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK && r.Proto == "HTTP/2.0" && r.Header.Get("Strict-Transport-Security") != ""
	}
	if !answers(old) {
		t.Fatal("it does not answer with its certificate")
	}
	kept := &http.Client{Timeout: patience, Transport: old.Transport.(*http.Transport).Clone()}
	kept.Transport.(*http.Transport).DisableKeepAlives = false
	if !answers(kept) {
		t.Fatal("it does not answer on a connection that is kept")
	}
	if answers(trusting(x509.NewCertPool())) {
		t.Error("a client that does not trust the certificate has an answer")
	}
	if r, err := http.Get(strings.Replace(s.url, "https", "http", 1) + "/readyz"); err == nil {
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}

	key := u.read("key.pem")
	renewed := trusting(u.certify("cert.pem", "key.pem", 2))
	u.write("next.pem", u.read("key.pem"))
	u.write("key.pem", key) // the old certificate's key: as if only one file had been replaced yet
	check.Eventually(t, "the server reports files that cannot be used", func() bool {
		return !answers(old) || strings.Contains(s.err.String(), "the previous one is kept")
	})
	if !answers(old) || answers(renewed) {
		t.Error("with files that do not belong together, it does not keep its certificate")
	}
	u.write("key.pem", u.read("next.pem"))
	check.Eventually(t, "new connections get the new certificate", func() bool { return answers(renewed) })
	if answers(old) {
		t.Error("new connections get the old certificate")
	}
	if !answers(kept) {
		t.Error("a connection that was kept ended")
	}
	s.stops()
	u.run("serve", "--dsn", "a.db", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "cert.pem").
		fails(exitUsage, "cannot use the certificate or its key")
}
