package series

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// A bucket's upper bound is above its durations, at most by a quarter.
func TestBuckets(t *testing.T) {
	t.Parallel()
	last := 0
	for d := time.Duration(0); d < 37*time.Hour; d += d/50 + time.Microsecond {
		b := bucketOf(d)
		upper := upperBound(b)
		if b < last || upper <= d || d >= 4*unit && float64(upper) > 1.25*float64(d)+float64(unit) {
			t.Fatalf("%v is in bucket %d, up to %v, after bucket %d", d, b, upper, last)
		}
		if b > 0 && upperBound(b-1) > d {
			t.Fatalf("%v is in bucket %d, but the one before goes up to %v", d, b, upperBound(b-1))
		}
		last = b
	}
	for _, d := range []time.Duration{-1, 40 * time.Hour, 1 << 62} {
		if b := bucketOf(d); b != 0 && b != buckets-1 {
			t.Errorf("%v is in bucket %d", d, b)
		}
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var r Recorder
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(rand.ExpFloat64() * float64(50*time.Millisecond))
		all = append(all, d)
		r.Record(d)
	}
	slices.Sort(all)
	h := r.since(new([buckets]int64))
	for _, p := range []float64{0, 1, 50, 95, 99, 99.9, 100} {
		want := all[max(int(p/100*float64(len(all))+0.999999), 1)-1]
		if got := h.Percentile(p); got < want || want > 4*unit && float64(got)*0.79 > float64(want) {
			t.Errorf("percentile %v is %v, want at most %v", p, want, got)
		}
	}
	var empty, back Histogram
	if empty.Percentile(50) != 0 || empty.String() != "" {
		t.Error("an empty histogram has a percentile")
	}
	if err := back.Parse(h.String()); err != nil || !slices.Equal(back, h) {
		t.Errorf("a histogram is read as another: %v", err)
	}
	for _, bad := range []string{"x", "1", "1:", ":1", "128:1", "-1:1", "1:-1", "1:99999999999999999999"} {
		if back.Parse(bad) == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzHistogram(f *testing.F) {
	f.Add("1:2 3:4")
	f.Add("127:9223372036854775807")
	f.Add("1:")
	f.Fuzz(func(t *testing.T, text string) {
		var h, again Histogram
		if h.Parse(text) == nil && (again.Parse(h.String()) != nil && h.Count() >= 0) {
			t.Errorf("%q is stored as %q, which cannot be read", text, h.String())
		}
	})
}

// Nothing is lost or counted twice between the calls of Since.
func TestTallySince(t *testing.T) {
	t.Parallel()
	var tally Tally
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5000 {
				tally.Started.Add(1)
				tally.RunTime.Record(time.Millisecond)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	var started, ran int64
	add := func() bool {
		c, some := tally.Since()
		started, ran = started+c.Started, ran+c.RunTime.Count()
		return some
	}
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		add()
	}
	if started != 40_000 || ran != 40_000 {
		t.Errorf("counted %d started and %d ended, want 40000", started, ran)
	}
	if add() {
		t.Error("there is something without a change")
	}
}
