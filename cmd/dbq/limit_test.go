package main

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/admin"
)

func TestLimitFlags(t *testing.T) {
	t.Parallel()
	rate := admin.Rate{Starts: 1, Per: time.Minute, Burst: 7}
	was := admin.QueueLimits{Leased: 3, Rate: rate, KeyLeased: 2, PerKey: true}
	for name, c := range map[string]struct {
		flags limitFlags
		want  string // or, with an exclamation mark, no change but an error
	}{
		"one":         {limitFlags{leased: "5"}, "--leased 5 --rate 1/m --burst 7 --per-key-leased 2"},
		"rate":        {limitFlags{rate: "10/s"}, "--leased 3 --rate 10/s --burst 7 --per-key-leased 2"},
		"long rate":   {limitFlags{rate: "5/30s", burst: "2"}, "--leased 3 --rate 5/30s --burst 2 --per-key-leased 2"},
		"no rate":     {limitFlags{rate: "none"}, "--leased 3 --per-key-leased 2"},
		"no keys":     {limitFlags{keyLeased: "none"}, "--leased 3 --rate 1/m --burst 7"},
		"turns":       {limitFlags{keyLeased: "none", perKey: true}, "--leased 3 --rate 1/m --burst 7 --per-key"},
		"not in turn": {limitFlags{noPerKey: true}, "--leased 3 --rate 1/m --burst 7"},
		"key rate": {limitFlags{keyRate: "5/m", keyBurst: "2"},
			"--leased 3 --rate 1/m --burst 7 --per-key-leased 2 --per-key-rate 5/m --per-key-burst 2"},
		"key rate alone":  {limitFlags{off: true, keyRate: "5/m"}, "--per-key-rate 5/m --per-key-burst 1"},
		"no key rate":     {limitFlags{off: true, keyRate: "none"}, ""},
		"key burst alone": {limitFlags{keyBurst: "2"}, "!"},
		"bad key rate":    {limitFlags{keyRate: "5"}, "!"},
		"order":           {limitFlags{order: "skip"}, "--leased 3 --rate 1/m --burst 7 --per-key-leased 2 --order skip"},
		"no order":        {limitFlags{order: "none", keyLeased: "none"}, "--leased 3 --rate 1/m --burst 7"},
		"bad order":       {limitFlags{order: "strict"}, "!"},
		"off":             {limitFlags{off: true}, ""},
		"off and on":      {limitFlags{off: true, leased: "1"}, "--leased 1"},
		"zero":            {limitFlags{leased: "0"}, "!"},
		"negative":        {limitFlags{keyLeased: "-1"}, "!"},
		"no number":       {limitFlags{leased: "many"}, "!"},
		"zero rate":       {limitFlags{rate: "0/s"}, "!"},
		"no time":         {limitFlags{rate: "10"}, "!"},
		"bad time":        {limitFlags{rate: "10/x"}, "!"},
		"zero time":       {limitFlags{rate: "10/0"}, "!"},
		"zero burst":      {limitFlags{burst: "0"}, "!"},
		"burst alone":     {limitFlags{off: true, burst: "2"}, "!"},
	} {
		l := was
		err := c.flags.apply(&l)
		if got := limitsText(l); (err != nil) != (c.want == "!") || err == nil && got != c.want {
			t.Errorf("%s: got %q and error %v, want %q", name, got, err, c.want)
		}
	}
}
