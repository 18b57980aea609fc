package main

import (
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/admin"
)

func TestLimitFlags(t *testing.T) {
	t.Parallel()
	rate := admin.Rate{Starts: 1, Per: time.Minute, Burst: 7}
	was := admin.QueueLimits{Concurrency: 3, Rate: rate, KeyConcurrency: 2, PerKey: true}
	for flags, want := range map[string]string{ // an exclamation mark is an error
		"--concurrency 5":                      "--concurrency 5 --rate 1/m --burst 7 --per-key-concurrency 2",
		"--rate 10/s":                          "--concurrency 3 --rate 10/s --burst 7 --per-key-concurrency 2",
		"--burst 2 --rate 5/30s":               "--concurrency 3 --rate 5/30s --burst 2 --per-key-concurrency 2",
		"--rate 5/36h":                         "--concurrency 3 --rate 5/1d12h --burst 7 --per-key-concurrency 2",
		"--rate none":                          "--concurrency 3 --per-key-concurrency 2",
		"--per-key-concurrency none":           "--concurrency 3 --rate 1/m --burst 7",
		"--per-key-concurrency none --per-key": "--concurrency 3 --rate 1/m --burst 7 --per-key",
		"--per-key=false":                      "--concurrency 3 --rate 1/m --burst 7",
		"--per-key-rate 5/m --per-key-burst 2": "--concurrency 3 --rate 1/m --burst 7 --per-key-concurrency 2 " +
			"--per-key-rate 5/m --per-key-burst 2",
		"--off --per-key-rate 5/m":  "--per-key-rate 5/m --per-key-burst 1",
		"--off --per-key-rate none": "",
		"--per-key-burst 2":         "!",
		"--per-key-rate 5":          "!",
		"--order skip": "--concurrency 3 --rate 1/m --burst 7 --per-key-concurrency 2 " +
			"--order skip",
		"--order none --per-key-concurrency none": "--concurrency 3 --rate 1/m --burst 7",
		"--order strict":           "!",
		"--off":                    "",
		"--off --concurrency 1":    "--concurrency 1",
		"--concurrency 0":          "!",
		"--per-key-concurrency -1": "!",
		"--concurrency many":       "!",
		"--rate 0/s":               "!",
		"--rate 10":                "!",
		"--rate 10/x":              "!",
		"--rate 10/0":              "!",
		"--burst 0":                "!",
		"--off --burst 2":          "!",
	} {
		l, given, off := was, limitFlags(&admin.QueueLimits{}), false
		given.BoolVar(&off, "off", false, "")
		err := given.Parse(strings.Fields(flags))
		given.Lookup("off").Changed = false // it is a flag of the command only
		if err == nil {
			err = changeLimits(&l, given, off)
		}
		if got := limitsText(l); (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("%s: got %q and error %v, want %q", flags, got, err, want)
		}
	}
}
