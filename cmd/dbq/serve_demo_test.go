//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// TestServeDemo starts the demo, finds tasks in every state, sees workers at work, stops it, and finds no file left.
func TestServeDemo(t *testing.T) {
	u := newUser(t)
	temp := t.TempDir()
	u.env = append(u.env, "TMPDIR="+temp)
	s := u.serveProcess("--demo")
	for _, state := range []string{"completed", "error", "poison"} {
		if status, body := s.get("/v1/db/demo/tasks?state=" + state); status != 200 || !strings.Contains(body, `"holder"`) {
			t.Errorf("tasks in %s: %d %s", state, status, body)
		}
	}
	for path, want := range map[string]string{
		"/db/demo/":                 "Queue reports is paused",
		"/db/demo/queue?queue=mail": `<figure class="plot"`,
		"/db/demo/schedules":        "America/New_York",
	} {
		if status, body := s.get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, want %s: %s", path, status, want, body)
		}
	}
	check.Eventually(t, "a worker works", func() bool {
		status, body := s.get("/v1/db/demo/tasks?state=processing,completed&queue=orders")
		return status == 200 && strings.Contains(body, `"holder":"shop-`)
	})
	if files, err := filepath.Glob(filepath.Join(temp, "*", "demo.db*")); err != nil || len(files) == 0 {
		t.Errorf("the demo has no files: %v", err)
	}
	s.signal(os.Interrupt)
	s.wait().ok()
	if files, err := os.ReadDir(temp); err != nil || len(files) > 0 {
		t.Errorf("the demo left %v: %v", files, err)
	}
}

func TestServeDemoRefusesDatabases(t *testing.T) {
	u := newUser(t)
	check.OK(t, os.WriteFile(filepath.Join(u.dir, "a.dsn"), []byte("a.db\n"), 0o600))
	for _, args := range [][]string{
		{"--dsn", "a.db"}, {"--config", "a.yaml"}, {"--tokens", "demo"}, {"--prefix", "x_"},
		{"--dsn-file", "a.dsn"},
	} {
		u.run(append([]string{"serve", "--demo"}, args...)...).fails(exitUsage, "a database of its own")
	}
	u.run("serve", "--demo", "--listen", "0.0.0.0:0").fails(exitUsage, "serves only this machine")
}
