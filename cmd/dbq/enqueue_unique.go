package main

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/pflag"
)

// uniqueLine is the unique rule of a task, as given by a JSON line or by flags.
type uniqueLine struct {
	Key        string `json:"unique"`
	While      string `json:"unique_while"`
	Period     string `json:"unique_period"`
	Window     string `json:"unique_window"`
	OnConflict string `json:"on_conflict"`
	MaxWait    string `json:"max_wait"`
}

func (u *uniqueLine) addFlags(l *pflag.FlagSet) {
	l.StringVar(&u.Key, "unique", "", "do not enqueue while another task has this `KEY`")
	l.StringVar(&u.While, "unique-while", "", "how long a task has its key: `SCOPE` is pending (default) or unfinished")
	l.StringVar(&u.Period, "unique-period", "", "one task for each period of this `TIME`, such as 1h, in UTC")
	l.StringVar(&u.Window, "unique-window", "", "one task in this `TIME` after its enqueue, such as 1h")
	l.StringVar(&u.OnConflict, "on-conflict", "", "`ACTION` if the key is taken: keep (default), replace or debounce")
	l.StringVar(&u.MaxWait, "max-wait", "", "do not postpone a task beyond this `TIME` after it was created")
}

// unique returns the rule, or nil if there is none.
func (u uniqueLine) unique() (out *dbq.Unique, err error) {
	if u.Key == "" {
		if u != (uniqueLine{}) {
			return nil, usagef("the unique key is missing: --unique KEY, or unique in a line")
		}
		return nil, nil
	}
	out = &dbq.Unique{Key: u.Key}
	switch u.While {
	case "", "pending":
	case "unfinished":
		out.While = dbq.UniqueUnfinished
	default:
		return nil, usagef("--unique-while: use pending or unfinished")
	}
	switch u.OnConflict {
	case "", "keep":
	case "replace":
		out.OnConflict = dbq.UniqueReplace
	case "debounce":
		out.OnConflict = dbq.UniqueDebounce
	default:
		return nil, usagef("--on-conflict: use keep, replace or debounce")
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"period", u.Period, &out.Period}, {"window", u.Window, &out.Window}} {
		if d.text == "" {
			continue
		}
		if *d.to, err = parseDuration(d.text); err != nil {
			return nil, usagef("the %s: %w", d.name, err)
		}
		if *d.to == 0 {
			return nil, usagef("the %s is zero", d.name)
		}
	}
	if u.MaxWait != "" {
		if out.MaxWait, err = parseDuration(u.MaxWait); err != nil {
			return nil, usagef("the longest wait: %w", err)
		}
	}
	return out, nil
}

// outcome is what happened to the task that has the key, as the answer to an enqueue says.
func (u uniqueLine) outcome() string {
	if u.OnConflict == "replace" {
		return "replaced"
	}
	return "debounced"
}
