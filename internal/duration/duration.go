// Package duration is how dbq writes times that pass: for people such as 1d12h, and in JSON as seconds.
package duration

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// day and week are always 24 and 168 hours.
const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Forever is the duration that never ends. People write it as forever, and JSON has -1.
const (
	Forever     time.Duration = math.MaxInt64
	ForeverText               = "forever"
)

var (
	errSyntax   = errors.New("use a duration such as 250ms, 90s, 1h30m, 7d or 2w")
	errNegative = errors.New("a duration cannot be negative")
	errSeconds  = errors.New("a duration in JSON is a number of seconds")
	errTooLong  = fmt.Errorf("the duration is longer than %s", Format(math.MaxInt64/day*day))
)

// parts matches a duration: numbers with units, the largest unit first and each one once. Its groups are the numbers of
// weeks and of days, and the rest, which time.ParseDuration reads.
var parts = func() *regexp.Regexp {
	const number = `(?:\d+\.?\d*|\.\d+)`
	part := func(unit string) string { return "(?:" + number + unit + ")?" }
	return regexp.MustCompile("^(?:(" + number + ")w)?(?:(" + number + ")d)?(" +
		part("h") + part("m") + part("s") + part("ms") + part("[uµ]s") + part("ns") + ")$")
}()

// Parse reads a duration such as 1d12h. Only 0 may be without a unit.
func Parse(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if strings.HasPrefix(text, "-") {
		return 0, errNegative
	}
	groups := parts.FindStringSubmatch(text)
	if groups == nil || text == "" {
		return 0, errSyntax
	}
	var total time.Duration
	for i, unit := range []time.Duration{week / time.Hour, day / time.Hour, 1} {
		if groups[i+1] == "" {
			continue
		}
		number := groups[i+1]
		if unit > 1 {
			number += "h"
		}
		part, err := time.ParseDuration(number)
		if err != nil || part > (math.MaxInt64-total)/unit {
			return 0, errTooLong
		}
		total += part * unit
	}
	return total, nil
}

// Format writes a duration as Parse reads it, exactly and with as few units as that takes.
func Format(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	var b strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d -= n * unit.size
		}
	}
	if d > 0 {
		b.WriteString(d.String())
	}
	return b.String()
}

// Seconds is a duration in JSON: a number of seconds, in whole microseconds. -1 is Forever.
type Seconds time.Duration

// MarshalJSON writes the number.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if time.Duration(s) == Forever {
		return []byte("-1"), nil
	}
	return json.Marshal(math.Round(time.Duration(s).Seconds()*1e6) / 1e6)
}

// UnmarshalJSON reads the number.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var v float64
	if err := json.Unmarshal(b, &v); err != nil {
		return errSeconds // the other error can have a part of b
	}
	if *s = Seconds(FromSeconds(v).Round(time.Microsecond)); v == -1 {
		*s = Seconds(Forever)
	}
	return nil
}

// FromSeconds converts a number of seconds. What exceeds every limit stays so.
func FromSeconds(s float64) time.Duration {
	const most = float64(1 << 62)
	return time.Duration(max(min(s*float64(time.Second), most), -most))
}

// RetryAfter reads the header Retry-After: seconds, or a date. It returns 0 for anything else, and otherwise at least a
// second and at most a year.
func RetryAfter(text string, now time.Time) time.Duration {
	const most = 365 * day
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(max(seconds, 1), uint64(most/time.Second))) * time.Second
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} { // as http.ParseTime
		if at, err := time.Parse(layout, text); err == nil {
			return min(max(at.Sub(now), time.Second), most)
		}
	}
	return 0
}
