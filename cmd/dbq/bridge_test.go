//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/internal/check"
)

// TestBridgeForwards forwards tasks to another file directly, and on to a third one over HTTP.
func TestBridgeForwards(t *testing.T) {
	u := newUser(t)
	for _, file := range []string{"a.db", "b.db", "c.db"} {
		u.run("--dsn", file, "migrate").ok()
	}
	u.run("--dsn", "a.db", "enqueue", "--queue", "out", "--payload", "hello", "--kind", "greet", "--key", "k").ok()
	check.OK(t, os.WriteFile(filepath.Join(u.dir, "to"), []byte("b.db\n"), 0o600))
	u.run("--dsn", "a.db", "bridge", "--queue", "out", "--to-queue", "mid", "--to-dsn-file", "to", "--until-empty").ok()
	if got := u.run("--dsn", "a.db", "list", "--queue", "out").ok(); !strings.Contains(got, "COMPLETED") {
		t.Errorf("the near task is %s", got)
	}

	secret := bridge.NewSecret().Reveal()
	u.env = append(u.env, "DBQ_WEBHOOK_SECRETS="+secret)
	receiver := u.start("--dsn", "c.db", "bridge", "--listen", "127.0.0.1:0", "--queue", "in", "--tasks")
	address := receiver.address(`(http://\S+\d)`)
	out := u.run("--dsn", "b.db", "bridge", "--queue", "mid", "--url", address, "--tasks", "--plain-http",
		"--allow-network", "127.0.0.0/8", "--until-empty")
	if out.ok(); strings.Contains(out.err, secret[6:]) {
		t.Errorf("it printed the secret: %s", out.err)
	}
	receiver.stops()
	got := u.run("--dsn", "c.db", "--json", "list", "--queue", "in").ok()
	for _, want := range []string{`"kind":"greet"`, `"key":"k"`, `"CREATED"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the far task is %s, want %s", got, want)
		}
	}
}

func TestBridgeRefusesFlags(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	const secret = "whsec_cGxhbnRlZHBsYW50ZWRwbGFudGVkcGxhbnRlZA=="
	u.env = append(u.env, "DBQ_WEBHOOK_SECRETS="+secret)
	for flags, want := range map[string]string{
		"":                        "--queue is missing",
		"-q x":                    "give one of",
		"-q x --url u --listen l": "give one of",
		"-q x --to-queue y":       "DBQ_TO_DSN",
		"-q x --url https://a.example --to-prefix p":         "need --to-queue",
		"-q x --to-queue y --tasks":                          "always forwards",
		"-q x --to-queue y --plain-http":                     "are for --url",
		"-q x --listen 127.0.0.1:0 --until-empty":            "not for --listen",
		"-q x --url http://a.example/planted":                "not https",
		"-q x --url https://u:planted@a.example":             "has a user",
		"-q x --url https://a.example --on-status gone=park": "such as 410=pause-queue",
		"-q x --url https://a.example --on-status 410=drop":  "OnStatus has an unknown action",
		"-q x --url https://a.example --allow-network 10.1":  "a network such as",
		"-q x --url https://a.example --secret-file missing": "--secret-file",
		"-q x --listen 127.0.0.1:planted":                    "--listen: write HOST:PORT",
	} {
		u.run(append([]string{"bridge"}, strings.Fields(flags)...)...).fails(exitUsage, want)
	}
	u.env = append(u.env, "DBQ_WEBHOOK_SECRETS=planted")
	if out := u.run("bridge", "-q", "x", "--url", "https://a.example"); out.code != exitUsage ||
		strings.Contains(out.err, "planted") {
		t.Errorf("exit code %d: %s", out.code, out.err)
	}
}
