package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	driver "github.com/go-sql-driver/mysql"
)

// verifyCA is a value of tls: the certificate's name is not checked.
const verifyCA = "verify-ca"

// trust makes connections check the server's certificate by the authorities in a file, instead of the system's.
func trust(cfg *driver.Config, file, mode string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return unusable("tls_ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return unusable("tls_ca: %s has no certificate in PEM", file)
	}
	cfg.TLS, cfg.TLSConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, "true"
	if mode != verifyCA {
		return nil
	}
	cfg.TLS.InsecureSkipVerify = true // VerifyConnection verifies all but the name
	cfg.TLS.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
	return nil
}
