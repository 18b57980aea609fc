package duration

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
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
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "1", "90", "1h1d", "1d1d", "1m1h", "-1h", "+1h", "1 h", "1h ", "1.2.3h", ".", ".h", "soon", "1y", "1H",
		"1e3s",
		"213504d", "106752d", "15251w", "9223372036854775808ns", "106751d24h", "99999999999999999999s",
		"2562047h47m16.854775808s",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0", time.Hour: "1h", 168 * time.Hour: "7d", 36 * time.Hour: "1d12h", 90 * time.Second: "1m30s",
		1500 * time.Millisecond: "1.5s",
		250 * time.Millisecond:  "250ms", 1500 * time.Microsecond: "1.5ms", time.Nanosecond: "1ns",
		day + time.Nanosecond:             "1d1ns",
		time.Minute + 10*time.Millisecond: "1m10ms", 10*time.Second + time.Microsecond: "10.000001s", 30 * time.Second: "30s",
	} {
		if got := Format(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func FuzzDuration(f *testing.F) {
	f.Add("1d12h", int64(1))
	f.Add("213504d", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, text string, n int64) {
		if d, err := Parse(text); err == nil && d < 0 {
			t.Errorf("%q is %v", text, d)
		}
		if d := time.Duration(n); d > 0 {
			if got, err := Parse(Format(d)); err != nil || got != d {
				t.Errorf("%v is written %q and read as %v, %v", d, Format(d), got, err)
			}
		}
	})
}

// Every number of seconds that JSON has is read as it was written, in whole microseconds, and no limit is passed.
func TestSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0", 90 * time.Second: "90", 1500 * time.Millisecond: "1.5", 3 * time.Microsecond: "0.000003", Forever: "-1",
		36500 * day: "3153600000", 36500*day + time.Microsecond: "3153600000.000001", -time.Second / 2: "-0.5",
	} {
		text, err := json.Marshal(Seconds(d))
		var got Seconds
		err = errors.Join(err, json.Unmarshal(text, &got))
		if err != nil || string(text) != want || time.Duration(got) != d {
			t.Errorf("%v is written %s and read as %v, %v", d, text, time.Duration(got), err)
		}
	}
	for _, text := range []string{"1e300", "1e10", "9223372036854775807"} {
		var got Seconds
		err := json.Unmarshal([]byte(text), &got)
		if d := time.Duration(got); err != nil || d < 100*365*day || d == Forever {
			t.Errorf("%s is %v, %v", text, d, err)
		}
	}
	var got Seconds
	if err := json.Unmarshal([]byte(`"planted"`), &got); err == nil || strings.Contains(err.Error(), "planted") {
		t.Errorf("a text is %v, %v", got, err)
	}
}
