package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1h30m": 90 * time.Minute,
		"7d": 168 * time.Hour, "2w": 336 * time.Hour,
		"1d12h": 36 * time.Hour,
		"2w3d4h5m6s7ms8us9ns": 17*day + 4*time.Hour + 5*time.Minute + 6*time.Second +
			7*time.Millisecond + 8*time.Microsecond + 9,
		"1.5h": 90 * time.Minute, "0.5d": 12 * time.Hour, ".5s": 500 * time.Millisecond, "1.s": time.Second,
		"3µs":     3 * time.Microsecond,
		"106751d": 106751 * day, "9223372036854775807ns": math.MaxInt64, "0.1234567899s": 123456789,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "1", "90", "1h1d", "1d1d", "1m1h", "-1h", "+1h", "1 h", "1h ", "1.2.3h", ".", ".h", "soon", "1y", "1H",
		"1e3s",
		"213504d", "106752d", "15251w", "9223372036854775808ns", "106751d24h", "99999999999999999999s",
		"2562047h47m16.854775808s",
	} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0", time.Hour: "1h", 168 * time.Hour: "7d", 36 * time.Hour: "1d12h", 90 * time.Second: "1m30s",
		1500 * time.Millisecond: "1.5s",
		250 * time.Millisecond:  "250ms", 1500 * time.Microsecond: "1.5ms", time.Nanosecond: "1ns",
		day + time.Nanosecond:             "1d1ns",
		time.Minute + 10*time.Millisecond: "1m10ms", 10*time.Second + time.Microsecond: "10.000001s", 30 * time.Second: "30s",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func FuzzDuration(f *testing.F) {
	f.Add("1d12h", int64(1))
	f.Add("213504d", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, text string, n int64) {
		if d, err := parseDuration(text); err == nil && d < 0 {
			t.Errorf("%q is %v", text, d)
		}
		if d := time.Duration(n); d > 0 {
			if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
				t.Errorf("%v is written %q and read as %v, %v", d, formatDuration(d), got, err)
			}
		}
	})
}

// Every flag for a duration takes days and weeks.
func TestEveryDurationTakesDaysAndWeeks(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	seen := 0
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.(type) {
			case *durationFlag:
				seen++
				return
			}
			if strings.Contains(f.Value.Type(), "duration") && !cmd.Hidden {
				t.Errorf("%s --%s is a %T", cmd.CommandPath(), f.Name, f.Value)
			}
		})
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot(&app{}))
	if seen < 20 {
		t.Errorf("only %d flags for durations", seen)
	}
}
