// Package series counts the events of a queue: plain counters and histograms of durations, which are kept in memory,
// stored as text, and added up.
package series

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A histogram's buckets divide each power of two into four, from 16 microseconds up to 38 hours: the upper bound of a
// bucket is at most a quarter above its lower bound. Stored histograms have these numbers, so they never change.
const (
	buckets = 128
	unit    = 16 * time.Microsecond
)

// A Histogram has the number of durations in each bucket, up to the last one that is not empty.
type Histogram []int64

// grow makes room for a bucket.
func (h *Histogram) grow(bucket int) {
	if more := bucket + 1 - len(*h); more > 0 {
		*h = append(*h, make(Histogram, more)...)
	}
}

// bucketOf returns the bucket of a duration. The last one has all that are longer.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0) / unit)
	if v < 4 {
		return int(v)
	}
	shift := bits.Len64(v) - 3
	return min(4*(shift+1)+int(v>>shift&3), buckets-1)
}

// upperBound returns the upper bound of a bucket. For the last bucket, which has none, it continues the sequence.
func upperBound(bucket int) time.Duration {
	if bucket < 4 {
		return time.Duration(bucket+1) * unit
	}
	return time.Duration(bucket&3+5) << (bucket/4 - 1) * unit
}

// Add adds the durations of another histogram.
func (h *Histogram) Add(o Histogram) {
	h.grow(len(o) - 1)
	for i, c := range o {
		(*h)[i] += c
	}
}

// Count returns the number of durations.
func (h Histogram) Count() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Percentile returns the upper bound of the bucket with the percentile p, from 0 to 100, or 0 for an empty histogram.
// The percentile itself is at most that, and at least four fifths of it, or shorter than 64 microseconds.
func (h Histogram) Percentile(p float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := max(int64(p/100*float64(n)+0.999999), 1) // of the duration, from 1
	for i, c := range h {
		if rank -= c; rank <= 0 {
			return upperBound(i)
		}
	}
	return upperBound(buckets - 1)
}

// String returns the histogram as it is stored: the buckets that are not empty, as bucket:number, with spaces between.
func (h Histogram) String() string {
	var b strings.Builder
	for i, c := range h {
		if c != 0 {
			fmt.Fprintf(&b, " %d:%d", i, c)
		}
	}
	return strings.TrimPrefix(b.String(), " ")
}

// Parse adds a stored histogram.
func (h *Histogram) Parse(text string) error {
	for part := range strings.FieldsSeq(text) {
		bucket, number, _ := strings.Cut(part, ":")
		i, err := strconv.Atoi(bucket)
		n, err2 := strconv.ParseInt(number, 10, 64)
		if err != nil || err2 != nil || i < 0 || i >= buckets || n < 0 {
			return fmt.Errorf("%q in a histogram is not bucket:number", part)
		}
		h.grow(i)
		(*h)[i] += n
	}
	return nil
}

// A Recorder is a histogram that many goroutines add to. It only grows.
type Recorder [buckets]atomic.Int64

// Record adds a duration.
func (r *Recorder) Record(d time.Duration) { r[bucketOf(d)].Add(1) }

// since returns the values recorded since the last call with the same before, which it updates.
func (r *Recorder) since(before *[buckets]int64) (h Histogram) {
	for i := range r {
		now := r[i].Load()
		if n := now - before[i]; n != 0 {
			h.grow(i)
			h[i], before[i] = n, now
		}
	}
	return h
}
