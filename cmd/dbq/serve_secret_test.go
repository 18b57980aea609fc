//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// Wrong configurations are refused without what was typed where a secret may stand. Here the form of the file or of a
// value is wrong; TestConfigurationShowsNothingThatWasTyped tries each key.
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
	send := base + "bridges: [{database: shop, queue: q, "
	signed := ", secret_files: [" + filepath.Join(dir, "signed") + "]}}]"
	check.OK(t, os.WriteFile(filepath.Join(dir, "signed"), []byte(webhookSecret), 0o600))
	check.OK(t, os.WriteFile(filepath.Join(dir, "two"), []byte(dsn+"\n"+dsn), 0o600))
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
		base + "auth: {oidc: {issuer: 'https://u:" + secret + "@127.0.0.1', rules: [{role: viewer}]}}",
		send + "webhook: {url: 'http://u:" + secret + "@h/'" + signed,
		send + "forward_url: {url: 'https://u:" + secret + "@h/'" + signed,
		base + "bridges: [{database: " + secret + ", queue: q, forward: {database: " + secret + ", queue: q}}]",
	} {
		file := filepath.Join(dir, "config.yaml")
		check.OK(t, os.WriteFile(file, []byte(text), 0o600))
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
	} {
		if code, printed := typed(t, args...); code == exitOK || strings.Contains(printed, secret) {
			t.Errorf("%q: exit code %d: %s", args, code, printed)
		}
	}
}
