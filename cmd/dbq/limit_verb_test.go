//go:build unix

package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
)

func TestLimitVerb(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	u.run("limit", "q").fails(exitNotFound, "q")
	for _, c := range []struct {
		flags, text string
		json        map[string]any
	}{
		{"--create", "no limits", nil},
		{"--create --concurrency 5", "--concurrency 5", map[string]any{"concurrency": 5.0}},
		{"--rate 10/30s --burst 3", "--concurrency 5 --rate 10/30s --burst 3",
			map[string]any{"concurrency": 5.0, "rate_starts": 10.0, "rate_per_seconds": 30.0, "rate_burst": 3.0}},
		{"--concurrency none --rate none --per-key", "--per-key", map[string]any{"per_key": true}},
		{"--per-key-concurrency 2 --per-key-rate 5/m --per-key-burst 4 --order skip",
			"--per-key-concurrency 2 --per-key-rate 5/m --per-key-burst 4 --order skip", map[string]any{"per_key": true,
				"key_concurrency": 2.0, "key_rate_starts": 5.0, "key_rate_per_seconds": 60.0, "key_rate_burst": 4.0,
				"order": "skip"}},
		{"--off --create", "no limits", nil},
	} {
		args := append([]string{"limit", "q"}, strings.Fields(c.flags)...)
		if got := u.run(args...).ok(); got != "q: "+c.text+"\n" {
			t.Errorf("limit q %s prints %q, want %q", c.flags, got, c.text)
		}
		show := []string{"limit", "q", "--json"}
		if len(c.json) == 0 {
			show = append(show, "--create") // without limits, the queue is unknown
		}
		for _, args := range [][]string{append(args, "--json"), show} {
			if got := u.run(args...).one(); !maps.Equal(got, c.json) {
				t.Errorf("dbq %q prints %v, want %v", args, got, c.json)
			}
		}
	}
	for flags, text := range map[string]string{
		"--concurrency 0": "--concurrency", "--rate 5": "--rate", "--burst 2": "--rate",
		"--order strict": "--order"} {
		o := u.run(append([]string{"limit", "q", "--create", "--json"}, strings.Fields(flags)...)...)
		if o.fails(exitUsage, text); o.out != "" {
			t.Errorf("limit q %s prints %q", flags, o.out)
		}
	}
}

func TestLimitsAreResetToDeclaredOnes(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	u.run("limit", "q", "--create", "--reset").fails(exitNotFound, "no program declares")
	u.run("limit", "q", "--create", "--reset", "--off").fails(exitUsage, "--reset")
	c, err := dbq.Open(t.Context(), "sqlite:"+u.file("dbq.db"))
	check.OK(t, err)
	defer c.Close()
	check.OK(t, admin.New(c).DeclareLimits(t.Context(), "q", admin.QueueLimits{Concurrency: 2}))
	for _, step := range [][2]string{
		{"", "--concurrency 2"},
		{"--concurrency 5", "--concurrency 5 (set by an operator; a program declares --concurrency 2: dbq limit q --reset)"},
		{"--off", "no limits (set by an operator; a program declares --concurrency 2: dbq limit q --reset)"},
		{"--reset", "--concurrency 2"},
	} {
		args := append([]string{"limit", "q"}, strings.Fields(step[0])...)
		if got := u.run(args...).ok(); got != "q: "+step[1]+"\n" {
			t.Errorf("limit q %s prints %q, want %q", step[0], got, step[1])
		}
	}
}

func TestCancelVerb(t *testing.T) {
	u := newUser(t)
	var ids []string
	for range 4 {
		ids = append(ids, u.run("enqueue", "-q", "q").id())
	}
	if out := u.run("cancel", ids[0], "--by", "ann", "--reason", "no stock").ok(); out != "1 task cancelled\n" {
		t.Errorf("cancel prints %q", out)
	}
	task := u.task(ids[0])
	wantFields(t, "the cancelled task", task, map[string]any{"state": "POISON", "result": "cancelled by ann: no stock",
		"cancelled": true})
	u.run("show", ids[0]).has("POISON", "cancelled by ann: no stock")
	want := map[string]any{"event": "cancel", "changed": 1.0}
	if got := u.run("cancel", ids[1], "--json").one(); !maps.Equal(got, want) {
		t.Errorf("cancel --json prints %v", got)
	}
	u.run("cancel", ids[1]).fails(exitState, "POISON")
	o := u.run("cancel", ids[1], ids[2], "--json")
	got := o.jsonLines()[0]
	failed, _ := got["failed"].([]any)
	if got["changed"] != 1.0 || len(failed) != 1 || failed[0].(map[string]any)["id"] != ids[1] || o.code != exitState {
		t.Errorf("of two, one cannot be cancelled: exit code %d, %v", o.code, got)
	}
	got = u.run("cancel", "-q", "q", "--dry-run", "--json").one()
	wantFields(t, "a dry run", got, map[string]any{"event": "cancel", "changed": 1.0, "dry_run": true})
	u.run("cancel", "-q", "q", "--dry-run").has("1 task would be cancelled\n")
	if out := u.run("cancel", "-q", "q").ok(); out != "1 task cancelled\n" {
		t.Errorf("cancel with a filter prints %q", out)
	}
	if n := len(u.run("list", "--cancelled", "--json").jsonLines()); n != 4 {
		t.Errorf("%d tasks are listed as cancelled, want 4", n)
	}
}
