package main

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// certificateCheck is how often the files of a certificate are checked for changes, at most.
const certificateCheck = time.Second

// certificate is that of a server. It is read again when one of its files has changed, so that a renewed certificate
// needs no restart. It is safe for concurrent use.
type certificate struct {
	files  tlsConfig
	logger *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	read    stamp // of the files that pair was read from
	failed  stamp // of the files that could not be used, which is logged once
	checked time.Time
}

// stamp tells versions of the files of a certificate from each other.
type stamp struct{ cert, key version }

type version struct {
	at   time.Time
	size int64
}

// listenTLS returns a listener that serves HTTPS with a certificate, or an error if the certificate cannot be used.
func listenTLS(l net.Listener, files tlsConfig, logger *slog.Logger) (net.Listener, error) {
	c := &certificate{files: files, logger: logger}
	if err := c.load(c.stamp()); err != nil {
		return nil, usagef("cannot use the certificate or its key: %w", err)
	}
	return tls.NewListener(l, &tls.Config{
		GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

// get returns the certificate for a new connection. If changed files cannot be used, such as while only one of them
// has been replaced, it returns the certificate that it had.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < certificateCheck {
		return c.pair, nil
	}
	c.checked = time.Now()
	now := c.stamp()
	if now == c.read {
		return c.pair, nil
	}
	if err := c.load(now); err == nil {
		c.logger.Info("serve: the certificate was renewed", "until", c.pair.Leaf.NotAfter)
	} else if now != c.failed {
		c.failed = now
		c.logger.Error("serve: the changed certificate cannot be used; the previous one is kept", "err", err)
	}
	return c.pair, nil
}

// load reads the files, whose stamp was taken before.
func (c *certificate) load(before stamp) error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err == nil {
		c.pair, c.read = &pair, before
	}
	return unnamed(err)
}

func (c *certificate) stamp() stamp { return stamp{versionOf(c.files.Cert), versionOf(c.files.Key)} }

// versionOf returns the version of a file, which is zero for one that cannot be read.
func versionOf(path string) version {
	info, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	return version{info.ModTime(), info.Size()}
}
