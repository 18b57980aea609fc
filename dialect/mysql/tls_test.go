package mysql

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// authority makes a certificate authority and a server's certificate for localhost, and writes the first to a file.
func authority(t *testing.T) (file string, server tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	must(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
	must(t, err)
	file = filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}), 0o600))
	return file, tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
}

// refuseInTLS is a server that refuses each client after the TLS handshake, and notes the name that it asked for.
func refuseInTLS(t *testing.T, cert tls.Certificate) (port string, asked func() string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	names, ended := make(chan string, 1), make(chan struct{})
	cfg := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return &tls.Config{Certificates: []tls.Certificate{cert}}, nil
	}}
	packet := func(number byte, text string) []byte { return append([]byte{byte(len(text)), 0, 0, number}, text...) }
	read := func(c io.Reader) {
		head := make([]byte, 4)
		_, _ = io.ReadFull(c, head)
		_, _ = io.CopyN(io.Discard, c, int64(head[0])|int64(head[1])<<8)
	}
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// The protocol's version 10, and CLIENT_PROTOCOL_41, CLIENT_SSL, CLIENT_SECURE_CONNECTION, CLIENT_PLUGIN_AUTH.
			_, _ = conn.Write(packet(0, "\x0a8.4.0\x00\x01\x00\x00\x00"+"saltsalt"+"\x00\x00\x8a\x2d\x02\x00\x08\x00\x15"+
				strings.Repeat("\x00", 10)+"saltsaltsalt\x00mysql_native_password\x00"))
			read(conn) // SSLRequest
			inner := tls.Server(conn, cfg)
			if inner.Handshake() == nil {
				read(inner)
				_, _ = inner.Write(packet(3, "\xff\x15\x04#28000refused"))
			}
			inner.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	_, port, err = net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port, func() string { return <-names }
}

func TestTLSChecksTheCertificateOfItsHost(t *testing.T) {
	t.Parallel()
	ca, cert := authority(t)
	other, _ := authority(t)
	port, asked := refuseInTLS(t, cert)
	for _, c := range []struct {
		host, params string
		name         string // that the client asks for
		trusts       bool
	}{
		{"localhost", "tls_ca=" + ca, "localhost", true},
		{"localhost", "tls=true&tls_ca=" + ca, "localhost", true},
		{"127.0.0.1", "tls_ca=" + ca, "", false}, // the certificate has another name
		{"127.0.0.1", "tls=verify-ca&tls_ca=" + ca, "", true},
		{"localhost", "tls_ca=" + other, "localhost", false},
		{"localhost", "tls=verify-ca&tls_ca=" + other, "", false},
		{"localhost", "tls=true", "localhost", false}, // the system does not know the authority
	} {
		pool, err := Open(t.Context(), "mysql://app@"+c.host+":"+port+"/d?"+c.params, nil)
		must(t, err)
		err = pool.Write.PingContext(t.Context())
		pool.Close()
		refused := (*driver.MySQLError)(nil)
		if trusts := errors.As(err, &refused) && refused.Number == 1045; trusts != c.trusts {
			t.Errorf("%s, %s: got %v, trusts the server: want %v", c.host, c.params, err, c.trusts)
		}
		if name := asked(); name != c.name {
			t.Errorf("%s, %s: asks for %q, want %q", c.host, c.params, name, c.name)
		}
	}
}

// A DSN with a Unix socket reaches the server. The socket is the test's own, because a server may run elsewhere.
func TestSocket(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		u, err := url.Parse(dsn)
		must(t, err)
		host := u.Host
		dir, err := os.MkdirTemp("", "dbq") // t.TempDir can be too long for a socket
		must(t, err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "s")
		listener, err := net.Listen("unix", path)
		must(t, err)
		defer listener.Close()
		go func() {
			for {
				client, err := listener.Accept()
				if err != nil {
					return
				}
				server, err := net.Dial("tcp", host)
				if err != nil {
					t.Error(err)
					return
				}
				pass := func(to, from net.Conn) { _, _ = io.Copy(to, from); to.Close() }
				go pass(server, client)
				go pass(client, server)
			}
		}()
		u.Host, u.RawQuery = "", "socket="+url.QueryEscape(path)
		pool, err := Open(t.Context(), u.String(), nil)
		must(t, err)
		defer pool.Close()
		if _, err := (Dialect{}).Probe(t.Context(), pool.Write); err != nil {
			t.Error(err)
		}
	})
}
