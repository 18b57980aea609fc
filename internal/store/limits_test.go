package store

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/errs"
)

// In any time d, a rate allows at most Burst + d * Starts / Per starts, whenever and in whatever numbers they come.
func TestRateIsNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, r := range []Rate{
		{1, time.Second, 1}, {3, time.Second, 1}, {10, time.Second, 5}, {7, time.Millisecond, 2},
		{700_000, time.Millisecond, 1}, {999_999, time.Second, 1000}, {1, 24 * time.Hour, 3},
		{1_000_000, time.Second, 1_000_000},
	} {
		check.OK(t, r.check())
		type start struct {
			at int64
			n  int
		}
		var starts []start
		random := rand.New(rand.NewPCG(1, uint64(r.Starts)))
		now, full := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixNano(), int64(0)
		for range 300 {
			n, wait := r.allowed(now, full)
			if (n == 0) == (wait == 0) || n < 0 || n > r.Burst {
				t.Fatalf("%+v allows %d starts and a wait of %v", r, n, wait)
			}
			if n == 0 {
				if more, _ := r.allowed(now+int64(wait)-1, full); more > 0 {
					t.Errorf("%+v allows a start before the wait of %v has passed", r, wait)
				}
				now += int64(wait)
				if n, _ = r.allowed(now, full); n == 0 {
					t.Errorf("%+v allows nothing after the wait of %v", r, wait)
				}
			}
			n = 1 + random.IntN(n)
			full = r.after(now, full, n)
			starts = append(starts, start{now, n})
			now += random.Int64N(3 * r.interval())
		}
		for i := range starts {
			total := 0
			for _, s := range starts[i:] {
				total += s.n
				d := float64(s.at - starts[i].at)
				if most := float64(r.Burst) + d*float64(r.Starts)/float64(r.Per); float64(total) > most+1e-6 {
					t.Fatalf("%+v allowed %d starts in %v, want at most %.3f", r, total, time.Duration(d), most)
				}
			}
		}
	}
}

func TestRateAllowsItsBurstAtOnce(t *testing.T) {
	t.Parallel()
	r := Rate{10, time.Second, 5}
	now := time.Now().UnixNano()
	if n, _ := r.allowed(now, 0); n != 5 {
		t.Errorf("%d starts are allowed at first, want the burst of 5", n)
	}
	ahead := r.after(now+int64(24*time.Hour), 0, 5) // of a clock that has been set back since
	if n, _ := r.allowed(now, ahead); n != 5 || r.after(now, ahead, 5) != r.after(now, 0, 5) {
		t.Errorf("%d starts are allowed after some of a day ahead, want the burst of 5", n)
	}
	if n, wait := r.allowed(now, r.after(now, 0, 5)); n != 0 || wait != 100*time.Millisecond {
		t.Errorf("after the burst %d are allowed, or after %v; want none, and 100ms", n, wait)
	}
	if n, _ := r.allowed(now+int64(time.Hour), r.after(now, 0, 5)); n != 5 {
		t.Errorf("an hour later %d are allowed, want the burst of 5", n)
	}
	if n, _ := (Rate{}).allowed(now, 0); n != math.MaxInt {
		t.Errorf("no rate allows %d", n)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	for _, l := range []Limits{
		{Concurrency: -1}, {Concurrency: maxLeased + 1}, {KeyConcurrency: -1}, {KeyConcurrency: maxLeased + 1},
		{Rate: Rate{0, time.Second, 1}}, {Rate: Rate{maxStarts + 1, time.Second, 1}}, {Rate: Rate{1, 0, 1}},
		{Rate: Rate{1, time.Millisecond - 1, 1}}, {Rate: Rate{1, maxRatePer + 1, 1}}, {Rate: Rate{1, time.Second, 0}},
		{Rate: Rate{1, time.Second, maxStarts + 1}}, {Rate: Rate{1, maxRatePer, maxStarts}},
		{KeyRate: Rate{0, time.Second, 1}}, {KeyRate: Rate{1, time.Second, 0}}, {KeyRate: Rate{1, maxRatePer, maxStarts}},
	} {
		if err := l.Check(); !errors.Is(err, errs.ErrOption) {
			t.Errorf("%+v: got %v, want ErrOption", l, err)
		}
	}
	rate := Rate{maxStarts, maxRatePer, maxStarts}
	most := Limits{maxLeased, rate, true, maxLeased, rate, OrderSkip}
	for _, l := range []Limits{{}, {Concurrency: 1}, most} {
		if got := l.Fields().Limits(); got != l || got.Check() != nil {
			t.Errorf("%+v is stored and read as %+v, %v", l, got, got.Check())
		}
	}
}

// The allowance tells apart a rate that workers wait for and one that has starts left because nothing used it.
func TestAllowanceOfARateThatIsUsedUp(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixNano()
	for name, c := range map[string]struct {
		rate Rate
		full int64
		want Allowance
	}{
		"no rate":              {Rate{}, now, Allowance{}},
		"never used":           {Rate{1, time.Second, 1}, 0, Allowance{Starts: 1}},
		"used long ago":        {Rate{1, time.Second, 1}, now - 2*second, Allowance{Starts: 1}},
		"just free again":      {Rate{1, time.Second, 1}, now - second/10, Allowance{Starts: 1, Used: true}},
		"used up":              {Rate{1, time.Second, 1}, now + second/4, Allowance{Wait: time.Second / 4, Used: true}},
		"a burst of which two": {Rate{1, time.Second, 5}, now + 3*second, Allowance{Starts: 2}},
		"a burst of which one": {Rate{1, time.Second, 5}, now + 4*second, Allowance{Starts: 1, Used: true}},
		"a burst used up":      {Rate{1, time.Second, 5}, now + 5*second, Allowance{Wait: time.Second, Used: true}},
	} {
		if got := c.rate.allowance(now, c.full); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
