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
	was := admin.QueueLimits{Leased: 3, Rate: rate, KeyLeased: 2, PerKey: true}
	for flags, want := range map[string]string{ // an exclamation mark is an error
		"--leased 5":                      "--leased 5 --rate 1/m --burst 7 --per-key-leased 2",
		"--rate 10/s":                     "--leased 3 --rate 10/s --burst 7 --per-key-leased 2",
		"--burst 2 --rate 5/30s":          "--leased 3 --rate 5/30s --burst 2 --per-key-leased 2",
		"--rate 5/36h":                    "--leased 3 --rate 5/1d12h --burst 7 --per-key-leased 2",
		"--rate none":                     "--leased 3 --per-key-leased 2",
		"--per-key-leased none":           "--leased 3 --rate 1/m --burst 7",
		"--per-key-leased none --per-key": "--leased 3 --rate 1/m --burst 7 --per-key",
		"--per-key=false":                 "--leased 3 --rate 1/m --burst 7",
		"--per-key-rate 5/m --per-key-burst 2": "--leased 3 --rate 1/m --burst 7 --per-key-leased 2 --per-key-rate 5/m " +
			"--per-key-burst 2",
		"--off --per-key-rate 5/m":           "--per-key-rate 5/m --per-key-burst 1",
		"--off --per-key-rate none":          "",
		"--per-key-burst 2":                  "!",
		"--per-key-rate 5":                   "!",
		"--order skip":                       "--leased 3 --rate 1/m --burst 7 --per-key-leased 2 --order skip",
		"--order none --per-key-leased none": "--leased 3 --rate 1/m --burst 7",
		"--order strict":                     "!",
		"--off":                              "",
		"--off --leased 1":                   "--leased 1",
		"--leased 0":                         "!",
		"--per-key-leased -1":                "!",
		"--leased many":                      "!",
		"--rate 0/s":                         "!",
		"--rate 10":                          "!",
		"--rate 10/x":                        "!",
		"--rate 10/0":                        "!",
		"--burst 0":                          "!",
		"--off --burst 2":                    "!",
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
