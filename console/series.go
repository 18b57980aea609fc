package console

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

const (
	// reportsAfter is how long after the end of a minute its statistics are there: the last minute that a page shows is
	// complete.
	reportsAfter = 10 * time.Second
	// seriesFor is how long statistics are shown to other visitors: they change once a minute.
	seriesFor  = 20 * time.Second
	hoursFor   = 30 * time.Second // the hours of the overview, which is open all day
	failingFor = time.Minute
)

// span is a time until now that plots show, in periods.
type span struct {
	Name, Title  string
	Each         string // how a page names a period
	over, period time.Duration
}

var spans = []span{
	{"1h", "1 hour", "minute", time.Hour, time.Minute},
	{"24h", "24 hours", "15 minutes", 24 * time.Hour, 15 * time.Minute},
	{"7d", "7 days", "hour", 7 * 24 * time.Hour, time.Hour},
}

// around returns the time of a span: its periods, and the complete minutes of the period that has not ended.
func (s span) around(now time.Time) (from, to time.Time) {
	to = now.Add(-reportsAfter).Truncate(time.Minute)
	return to.Truncate(s.period).Add(-s.over), to
}

// Partial reports whether a period has not ended.
func (s series) Partial(p admin.Point) bool { return p.At.Add(s.Span.period).After(s.to) }

// span returns the time that the visitor has chosen.
func (v *visit) span() (span, error) {
	name := v.form("over")
	for _, s := range spans {
		if name == s.Name || name == "" {
			return s, nil
		}
	}
	return span{}, formError("over must be 1h, 24h or 7d")
}

// seriesKey selects the statistics that visitors of a queue's page share.
type seriesKey struct {
	queue string
	span  string
}

// series are statistics of a queue as its page shows them.
type series struct {
	Span   span
	Spans  []span
	Read   time.Time
	Points []admin.Point

	from, to time.Time
}

// series returns the statistics of a queue.
func (v *visit) series(queue string, s span) (series, error) {
	return v.db.series.get(v.ctx(), seriesKey{queue, s.Name}, func(ctx context.Context) (series, error) {
		now, err := v.db.client.Now(ctx) // the statistics have the database's clock
		if err != nil {
			return series{}, err
		}
		from, to := s.around(now)
		points, err := v.db.admin.Series(ctx, queue, from, to, s.period)
		return series{s, spans, now, points, from, to}, err
	})
}

// Empty reports whether nothing was counted.
func (s series) Empty() bool {
	for _, p := range s.Points {
		if p.Enqueued|p.Started|p.Completed|p.Failed|p.Poisoned != 0 {
			return false
		}
	}
	return true
}

// sampled returns a number of a period that samples have, or unknown if none was taken.
func sampled(p admin.Point, n int64) int64 {
	if p.Samples == 0 {
		return unknown
	}
	return n
}

// seconds writes a duration for the plots: its seconds, or nothing if there was none.
func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatFloat(d.Seconds(), 'g', 6, 64)
}

// measure writes a duration to three digits: 12.5 ms, 1.25 s, 340 s.
func measure(d time.Duration) string {
	unit, value := "s", d.Seconds()
	if value < 1 {
		unit, value = "ms", 1000*value
	}
	digits := max(0, 2-int(math.Floor(math.Log10(max(value, 0.01)))))
	return strconv.FormatFloat(value, 'f', min(digits, 2), 64) + " " + unit
}

// hour has the statistics of a queue for each minute of the last hour.
type hour struct {
	Enqueued, Completed, Failed, Poisoned counts
}

// Some reports whether anything was counted.
func (h hour) Some() bool {
	return h.Enqueued.highest()|h.Completed.highest()|h.Failed.highest()|h.Poisoned.highest() != 0
}

// counts are numbers of equal times, in order, or unknown.
type counts []int64

const unknown = -1

// readHours reads the last hour of all queues. It returns nothing if there are too many queues for that.
func (d *database) readHours(ctx context.Context) (map[string]hour, error) {
	last := spans[0]
	now, err := d.client.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, to := last.around(now)
	all, err := d.admin.SeriesOf(ctx, nil, from, to, last.period)
	if errors.Is(err, dbq.ErrOption) {
		return nil, nil
	}
	out := map[string]hour{}
	for _, q := range all {
		var h hour
		for _, p := range q.Points {
			h.Enqueued, h.Completed = append(h.Enqueued, sampled(p, p.Enqueued)), append(h.Completed, p.Completed)
			h.Failed, h.Poisoned = append(h.Failed, p.Failed), append(h.Poisoned, p.Poisoned)
		}
		out[q.Queue] = h
	}
	return out, err
}

// readFailing reads which queues fail more often than usual: none if there are too many queues for that.
func (d *database) readFailing(ctx context.Context) (map[string]admin.Failing, error) {
	all, err := d.admin.Failing(ctx)
	if errors.Is(err, dbq.ErrOption) {
		return nil, nil
	}
	out := map[string]admin.Failing{}
	for _, f := range all {
		out[f.Queue] = f
	}
	return out, err
}

// add returns the sums of two hours.
func (h hour) add(o hour) hour {
	return hour{
		h.Enqueued.add(o.Enqueued), h.Completed.add(o.Completed), h.Failed.add(o.Failed), h.Poisoned.add(o.Poisoned),
	}
}

func (c counts) add(o counts) counts {
	sum := make(counts, max(len(c), len(o)))
	copy(sum, c)
	for i, n := range o {
		if n == unknown || sum[i] == unknown {
			sum[i] = unknown
		} else {
			sum[i] += n
		}
	}
	return sum
}

// Known reports whether one of the numbers is known, or there is none.
func (c counts) Known() bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(n int64) bool { return n != unknown })
}

// Sum returns the sum of the numbers that are known.
func (c counts) Sum() (sum int64) {
	for _, n := range c {
		sum += max(n, 0)
	}
	return sum
}

func (c counts) highest() (n int64) {
	for _, x := range c {
		n = max(n, x)
	}
	return n
}

// Size of a sparkline, in the units of its points.
const sparkWidth, sparkHeight = 120, 24

// Line returns a sparkline, in the same scale as the others: an SVG path with a gap where a number is unknown.
func (c counts) Line(others ...counts) string {
	highest := max(c.highest(), 1)
	for _, o := range others {
		highest = max(highest, o.highest())
	}
	var b strings.Builder
	command := "M"
	for i, n := range c {
		if n == unknown {
			command = "M"
			continue
		}
		x := float64(i) * sparkWidth / float64(max(len(c)-1, 1))
		y := 1 + (sparkHeight-2)*(1-float64(n)/float64(highest))
		fmt.Fprintf(&b, "%s%g,%g", command, math.Round(10*x)/10, math.Round(10*y)/10)
		command = " "
	}
	return b.String()
}
