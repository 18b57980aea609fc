package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newLimit(a *app) *cobra.Command {
	given, off, reset := limitFlags(&admin.QueueLimits{}), false, false
	cmd := a.queueCommand("dbq limit", true, func(ctx context.Context, ops *admin.Admin, queue string) error {
		switch {
		case reset && (off || anyChanged(given)):
			return usagef("--reset sets all limits: give it alone")
		case reset:
			if err := ops.ResetLimits(ctx, queue); err != nil {
				return err
			}
		case off || anyChanged(given):
			var mistake error
			err := ops.ConfigureLimits(ctx, queue, func(l *admin.QueueLimits) {
				next := *l
				if mistake = changeLimits(&next, given, off); mistake == nil {
					*l = next
				}
			})
			if err := cmp.Or(mistake, err); err != nil {
				return err
			}
		}
		l, err := ops.QueueLimits(ctx, queue)
		if err != nil {
			return err
		}
		declared, some, err := ops.DeclaredLimits(ctx, queue)
		if err != nil {
			return err
		}
		text := cmp.Or(limitsText(l), "no limits")
		if some && declared != l {
			text += fmt.Sprintf(" (set by an operator; a program declares %s: dbq limit %s --reset)",
				limitsText(declared), queue)
		}
		return a.result(l, "%s: %s", queue, text)
	})
	addInOrder(cmd, given)
	cmd.Flags().BoolVar(&reset, "reset", false, "set the limits that a program declares")
	cmd.Flags().BoolVar(&off, "off", false, "remove all limits")
	return a.addNote(cmd)
}

// limitFlags are flags that set the fields of l. Without a flag a field stays as it is.
func limitFlags(l *admin.QueueLimits) *pflag.FlagSet {
	f := orderedFlags()
	f.Var(numberLimit(&l.Concurrency), "concurrency", "at most `N` leased tasks over all workers (none: no limit)")
	f.Var(rateLimit(&l.Rate), "rate",
		"start at most this many tasks: a `RATE` such as 10/s, 100/m or 5/30s (none: no limit)")
	f.Var(numberLimit(&l.Rate.Burst), "burst", "of the rate, up to `N` tasks may start at once (default 1)")
	f.BoolVar(&l.PerKey, "per-key", l.PerKey, "serve the keys of the tasks in turn (--per-key=false: no limits per key)")
	f.Var(numberLimit(&l.KeyConcurrency), "per-key-concurrency", "at most `N` leased tasks of each key (none: no limit)")
	f.Var(rateLimit(&l.KeyRate), "per-key-rate",
		"start at most this many tasks of each key: a `RATE` such as 5/m (none: no limit)")
	f.Var(numberLimit(&l.KeyRate.Burst), "per-key-burst",
		"of the rate of each key, up to `N` of its tasks may start at once (default 1)")
	f.Var(orderLimit(&l.Order), "order", "run the tasks of each key one after the other; those in POISON or parked "+
		"`block` the later ones, or are skipped\n(block or skip; none: no order)")
	return f
}

// changeLimits changes limits as the flags say.
func changeLimits(l *admin.QueueLimits, given *pflag.FlagSet, off bool) error {
	inTurn, _ := given.GetBool("per-key")
	switch {
	case off:
		*l = admin.QueueLimits{}
	case given.Changed("per-key") && !inTurn:
		l.KeyConcurrency, l.KeyRate, l.Order = 0, admin.Rate{}, admin.OrderNone
	}
	copyChanged(limitFlags(l), given)
	for _, name := range []string{"per-key-concurrency", "per-key-rate", "order"} {
		if f := given.Lookup(name); f.Changed && f.Value.String() == "" {
			l.PerKey = inTurn // unless another limit implies it
		}
	}
	for prefix, r := range map[string]admin.Rate{"": l.Rate, "per-key-": l.KeyRate} {
		if r.Starts == 0 && r.Burst > 0 {
			return usagef("--%sburst needs a --%[1]srate", prefix)
		}
	}
	return nil
}

// limitFlag is the flag of a limit. The text of no limit is "", which people write as none.
type limitFlag struct {
	set  func(text string) error
	text func() string
}

func (limitFlag) Type() string     { return "limit" }
func (f limitFlag) String() string { return f.text() }

// Set reads it.
func (f limitFlag) Set(text string) error {
	if text == "none" {
		text = ""
	}
	return f.set(text)
}

func numberLimit(to *int) limitFlag {
	return limitFlag{func(text string) (err error) {
		if *to, err = strconv.Atoi(cmp.Or(text, "0")); err != nil || text != "" && *to < 1 {
			return errors.New("give a number from 1 on, or none to remove the limit")
		}
		return nil
	}, func() string { return strings.TrimPrefix(strconv.Itoa(*to), "0") }}
}

func orderLimit(to *admin.KeyOrder) limitFlag {
	return limitFlag{func(text string) error {
		switch *to = admin.KeyOrder(text); *to {
		case admin.OrderNone, admin.OrderBlock, admin.OrderSkip:
			return nil
		}
		return errors.New("give block, skip or none")
	}, func() string { return string(*to) }}
}

// rateLimit reads a rate such as 10/s or 5/30s. The burst stays.
func rateLimit(to *admin.Rate) limitFlag {
	return limitFlag{func(text string) error {
		if text == "" {
			*to = admin.Rate{}
			return nil
		}
		starts, per, _ := strings.Cut(text, "/")
		if per != "" && (per[0] < '0' || per[0] > '9') {
			per = "1" + per
		}
		n, err := strconv.Atoi(starts)
		each, perErr := duration.Parse(per)
		if err != nil || perErr != nil || n < 1 || each <= 0 {
			return errors.New("write a number of starts and a time, such as 10/s or 5/30s")
		}
		*to = admin.Rate{Starts: n, Per: each, Burst: max(to.Burst, 1)}
		return nil
	}, func() string {
		if to.Starts == 0 {
			return ""
		}
		return fmt.Sprintf("%d/%s", to.Starts, limitTime(to.Per))
	}}
}

// limitsText returns limits as flags of dbq limit, or nothing.
func limitsText(l admin.QueueLimits) string {
	if l.KeyConcurrency > 0 || l.KeyRate.Starts > 0 || l.Order != admin.OrderNone {
		l.PerKey = false // it is implied
	}
	return flagsText(limitFlags(&l))
}

// limitTime returns 1s as s, and 1m as m.
func limitTime(d time.Duration) string {
	text := duration.Format(d)
	if len(text) == 2 && text[0] == '1' {
		return text[1:]
	}
	return text
}
