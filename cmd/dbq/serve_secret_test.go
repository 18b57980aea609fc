package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Wrong configurations are refused without what was typed where a secret may stand: a DSN in place of a name, a secret
// in place of the name of its file.
func TestWrongConfigurationShowsNoSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dsn := "postgres://app:" + secret + "@127.0.0.1:1/db"
	key := "whsec_" + secret + "MDAwMDAwMDAwMDAwMDAwMDAwMDAw"
	good := filepath.Join(dir, "good.db")
	if code, printed := typed(t, "--dsn", good, "migrate"); code != exitOK {
		t.Fatal(printed)
	}
	base := "databases: {shop: {dsn: " + good + "}}\n"
	hook := base + "receivers: [{path: /hooks/a, database: shop, queue: q, "
	send := base + "bridges: [{database: shop, queue: q, "
	if err := os.WriteFile(filepath.Join(dir, "two"), []byte(dsn+"\n"+dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{
		dsn, "'" + dsn + "': x", secret + ": {}", "databases: " + dsn, "databases: [" + dsn + "]",
		"databases: {'" + dsn + "': {}}", "databases: {'" + dsn + "': {dsn: " + good + "}}", "databases: {'" + dsn + "': }",
		"databases: {shop: '" + dsn + "'}", "databases: {shop: {'" + dsn + "': x}}", "databases: {shop: {" + secret + ": x}}",
		"databases: {shop: {dsn: [" + dsn + "]}}", "databases: {shop: {dsn: '" + dsn + "', dsn_file: x}}",
		"databases: {shop: {dsn_env: '" + dsn + "'}}", "databases: {shop: {dsn_file: '" + dsn + "'}}",
		"databases: {shop: {dsn_file: '" + filepath.Join(dir, "two") + "'}}", "databases: {shop: {dsn: '" + dsn + "'}}",
		"databases: {shop: {dsn: '" + dsn + "', prefix: '" + secret + "'}}", "databases: {shop: {dsn: " + dsn,
		"databases: {shop: {dsn: *" + secret + "}}", "databases: {shop: {dsn: !" + secret + " x}}",
		"databases: {shop: &" + secret + " {dsn: *" + secret + "}}", "a: b: " + secret, secret + ": 1\n" + secret + ": 2",
		base + "auth: {tokens: '" + dsn + "'}", base + "auth: {" + secret + ": x}", base + "auth: '" + secret + "'",
		base + "auth: {oidc: {issuer: 'https://u:" + secret + "@127.0.0.1', rules: [{role: viewer}]}}",
		base + "auth: {oidc: {issuer: '" + dsn + "', audience: a, rules: [{role: viewer}]}}",
		base + "auth: {proxy: {from: ['" + dsn + "'], user_header: X-U}}",
		base + "tls: {cert: c.pem, key: '" + key + "'}", base + "tls: {key: '" + key + "'}",
		base + "drain: " + secret, base + "limits: {requests: " + secret + "}",
		base + "redact: [{database: '" + dsn + "', paths: [$]}]",
		hook + "secret_files: ['" + key + "']}]", hook + "secret_files: " + key + "}]", hook + "secrets_env: '" + key + "'}]",
		hook + "'" + key + "': x}]", base + "receivers: [{path: '" + dsn + "', database: shop, queue: q}]",
		base + "receivers: [{path: /hooks/a, database: '" + dsn + "', queue: q}]",
		send + "forward: {database: '" + dsn + "', queue: q}}]", send + "forward: '" + dsn + "'}]",
		send + "webhook: {url: '" + dsn + "', secret_files: ['" + key + "']}}]",
		send + "webhook: {url_file: '" + dsn + "'}}]",
		send + "forward_url: {url: 'https://u:" + secret + "@h/', secrets_env: '" + key + "'}}]",
		send + "rejected: '" + secret + "'}]", send + "webhook: {on_status: {'" + secret + "': park}}}]",
	} {
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, printed := typed(t, "serve", "--listen", "127.0.0.1:0", "--config", file)
		if code == exitOK || strings.Contains(printed, secret) {
			t.Errorf("configuration %d: exit code %d\n%s\n%s", i+1, code, text, printed)
		}
	}
	for _, args := range [][]string{
		{"serve", dsn}, {"serve", "--dsn-file", dsn}, {"serve", "--tokens", dsn, "--dsn", good},
		{"serve", "--dsn", "shop=" + dsn, "--dsn", "shop=" + dsn}, {"serve", "--dsn", "Shop=" + dsn},
		{"serve", "--dsn", dsn, "--dsn", dsn}, {"serve", "--dsn-file", filepath.Join(dir, "two")},
		{"serve", "--config", dsn}, {"serve", "--tls-cert", "c.pem", "--tls-key", key, "--dsn", good},
		{"stats", "--dsn-file", dsn}, {"stats", "--dsn-file", filepath.Join(dir, "two")}, {"stats", dsn},
		{"bridge", "--dsn", good, "--to", dsn}, {"bridge", "--dsn", good, "-q", "q", "--secret-file", key},
	} {
		if code, printed := typed(t, args...); code == exitOK || strings.Contains(printed, secret) {
			t.Errorf("%q: exit code %d: %s", args, code, printed)
		}
	}
}
