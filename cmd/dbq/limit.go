package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// limitFlags are the flags of dbq limit as they are given.
type limitFlags struct {
	leased, rate, burst, keyLeased, order string
	keyRate, keyBurst                     string
	perKey, noPerKey, off                 bool
}

func newLimit(a *app) *cobra.Command {
	var f limitFlags
	var flags *pflag.FlagSet
	cmd := a.queueCommand("dbq limit", true, func(ctx context.Context, ops *admin.Admin, queue string) error {
		f.noPerKey = flags.Changed("per-key") && !f.perKey
		if f.given() {
			var mistake error
			err := ops.ConfigureLimits(ctx, queue, func(l *admin.QueueLimits) {
				before := *l
				if mistake = f.apply(l); mistake != nil {
					*l = before
				}
			})
			if mistake != nil || err != nil {
				return firstOf(mistake, err)
			}
		}
		l, err := ops.QueueLimits(ctx, queue)
		if err != nil {
			return err
		}
		view := struct {
			Queue string `json:"queue"`
			limitsView
		}{queue, viewLimits(l)}
		return a.result(view, "%s: %s", queue, cmp.Or(limitsText(l), "no limits"))
	})
	l := cmd.Flags()
	flags, l.SortFlags = l, false
	l.StringVar(&f.leased, "leased", "", "at most `N` leased tasks over all workers (none: no limit)")
	l.StringVar(&f.rate, "rate", "",
		"start at most this many tasks: a `RATE` such as 10/s, 100/m or 5/30s (none: no limit)")
	l.StringVar(&f.burst, "burst", "", "of the rate, up to `N` tasks may start at once (default 1)")
	l.BoolVar(&f.perKey, "per-key", false, "serve the keys of the tasks in turn (--per-key=false: no limits per key)")
	l.StringVar(&f.keyLeased, "per-key-leased", "", "at most `N` leased tasks of each key (none: no limit)")
	l.StringVar(&f.keyRate, "per-key-rate", "",
		"start at most this many tasks of each key: a `RATE` such as 5/m (none: no limit)")
	l.StringVar(&f.keyBurst, "per-key-burst", "",
		"of the rate of each key, up to `N` of its tasks may start at once (default 1)")
	l.StringVar(&f.order, "order", "",
		"run the tasks of each key one after the other; those in POISON or parked `block` the later ones, or are skipped\n"+
			"(block or skip; none: no order)")
	l.BoolVar(&f.off, "off", false, "remove all limits")
	return cmd
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// given reports whether a flag changes something.
func (f *limitFlags) given() bool {
	return f.off || f.perKey || f.noPerKey || f.leased+f.rate+f.burst+f.keyLeased+f.keyRate+f.keyBurst+f.order != ""
}

// apply changes limits as the flags say.
func (f *limitFlags) apply(l *admin.QueueLimits) (err error) {
	if f.off {
		*l = admin.QueueLimits{}
	}
	if f.noPerKey {
		l.PerKey, l.KeyLeased, l.KeyRate, l.Order = false, 0, admin.Rate{}, admin.OrderNone
	}
	number := func(text, flag string, to *int) {
		if text != "" && err == nil {
			*to, err = limitNumber(text, flag)
		}
	}
	number(f.leased, "leased", &l.Leased)
	number(f.keyLeased, "per-key-leased", &l.KeyLeased)
	switch f.order {
	case "":
	case none:
		l.Order = admin.OrderNone
	case string(admin.OrderBlock), string(admin.OrderSkip):
		l.Order = admin.KeyOrder(f.order)
	default:
		return usagef("--order: give block, skip or none")
	}
	if (f.keyLeased == none || f.keyRate == none || f.order == none) && !f.perKey {
		l.PerKey = false // unless another limit implies it
	}
	l.PerKey = l.PerKey || f.perKey
	if err == nil {
		err = applyRate(&l.Rate, f.rate, f.burst, "")
	}
	if err == nil {
		err = applyRate(&l.KeyRate, f.keyRate, f.keyBurst, "per-key-")
	}
	return err
}

// applyRate changes a rate as two flags say, whose names begin with prefix.
func applyRate(to *admin.Rate, rate, burst, prefix string) (err error) {
	if rate != "" {
		was := max(to.Burst, 1)
		if *to, err = parseRate(rate, prefix+"rate"); to.Starts > 0 {
			to.Burst = was
		}
	}
	if burst == "" || err != nil {
		return err
	}
	if to.Starts == 0 {
		return usagef("--%sburst needs a --%srate", prefix, prefix)
	}
	to.Burst, err = limitNumber(burst, prefix+"burst")
	return err
}

// none removes a limit.
const none = "none"

func limitNumber(text, flag string) (int, error) {
	if text == none {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, usagef("--%s: give a number from 1 on, or none to remove the limit", flag)
	}
	return n, nil
}

// parseRate reads the rate of a flag, such as 10/s or 5/30s.
func parseRate(text, flag string) (r admin.Rate, err error) {
	if text == none {
		return r, nil
	}
	starts, per, found := strings.Cut(text, "/")
	if n, numErr := strconv.Atoi(starts); found && numErr == nil && n > 0 {
		r.Starts = n
		if per != "" && (per[0] < '0' || per[0] > '9') {
			per = "1" + per
		}
		r.Per, err = parseDuration(per)
	}
	if r.Per <= 0 || err != nil {
		return admin.Rate{}, usagef("--%s: write a number of starts and a time, such as 10/s or 5/30s", flag)
	}
	return r, nil
}

// limitsText returns limits as flags of dbq limit, or nothing.
func limitsText(l admin.QueueLimits) string {
	var parts []string
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(l.Leased > 0, "--leased %d", l.Leased)
	rate := func(r admin.Rate, prefix string) {
		add(r.Starts > 0, "--%srate %d/%s --%sburst %d", prefix, r.Starts, limitTime(r.Per), prefix, r.Burst)
	}
	rate(l.Rate, "")
	add(l.KeyLeased > 0, "--per-key-leased %d", l.KeyLeased)
	rate(l.KeyRate, "per-key-")
	add(l.Order != admin.OrderNone, "--order %s", l.Order)
	add(l.KeyLeased == 0 && l.KeyRate.Starts == 0 && l.Order == admin.OrderNone && l.PerKey, "--per-key")
	return strings.Join(parts, " ")
}

// limitTime returns 1s as s, and 1m0s as m.
func limitTime(d time.Duration) string {
	switch d {
	case time.Second:
		return "s"
	case time.Minute:
		return "m"
	case time.Hour:
		return "h"
	}
	return d.String()
}

// limitsView is what --json shows.
type limitsView struct {
	Leased     int     `json:"leased,omitempty"`
	RateStarts int     `json:"rate_starts,omitempty"`
	RateTime   float64 `json:"rate_seconds,omitempty"`
	Burst      int     `json:"burst,omitempty"`
	PerKey     bool    `json:"per_key,omitempty"`
	KeyLeased  int     `json:"per_key_leased,omitempty"`
	KeyStarts  int     `json:"per_key_rate_starts,omitempty"`
	KeyTime    float64 `json:"per_key_rate_seconds,omitempty"`
	KeyBurst   int     `json:"per_key_burst,omitempty"`
	Order      string  `json:"order,omitempty"`
}

func viewLimits(l admin.QueueLimits) limitsView {
	return limitsView{l.Leased, l.Rate.Starts, l.Rate.Per.Seconds(), l.Rate.Burst, l.PerKey, l.KeyLeased,
		l.KeyRate.Starts, l.KeyRate.Per.Seconds(), l.KeyRate.Burst, string(l.Order)}
}
