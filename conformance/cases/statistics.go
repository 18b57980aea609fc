package cases

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/series"
)

// statisticsCases are the statistics over time. The laws about roll-up and retention use times long ago, so that they
// need not wait.
func statisticsCases() []Case {
	return inGroup("Statistics",
		Case{Name: "LostAnswerCountsOnce", Once: true, run: statisticsLostAnswer,
			Law: "A report repeated after its answer was lost counts once; several workers' reports for a minute add up."},
		Case{Name: "SamplesCountTasks", Once: true, run: statisticsSamples,
			Law: "A sample has the tasks of each queue by state and those enqueued in the minute; two samplers count once, " +
				"and a queue without statistics is left out."},
		Case{Name: "UnsampledIsUnknown", Once: true, run: statisticsUnsampled,
			Law: "Each point has how many samples were taken in its period, also in an empty queue and after minutes were " +
				"added up: where there is none, no tasks were counted."},
		Case{Name: "RollUpKeepsSums", Once: true, run: statisticsRollUp,
			Law: "Adding minutes up to hours and days changes no sum, percentile or highest number, also if two clients do it " +
				"at once, and afterwards a series of any period has the same sums."},
		Case{Name: "RetentionRemoves", Once: true, run: statisticsRetention,
			Law: "Minutes, hours and days are removed when their retention has passed, and not before they have been added up."},
	)
}

// statistics returns the sums of a queue's series over the last minutes and the next.
func (t *test) statistics(c *dbq.Client, queue string) (sum admin.Point) {
	now := t.now(c)
	ps := must(admin.New(c).Series(t.ctx, queue, now.Add(-10*time.Minute), now.Add(10*time.Minute), time.Minute))
	return sumOf(ps)
}

// sumOf adds up the counts of points, and takes the highest of the other numbers.
func sumOf(ps []admin.Point) (sum admin.Point) {
	for _, p := range ps {
		sum.Enqueued += p.Enqueued
		sum.Started += p.Started
		sum.Completed += p.Completed
		sum.Failed += p.Failed
		sum.Poisoned += p.Poisoned
		sum.Released += p.Released
		sum.Due, sum.Created, sum.Poison = max(sum.Due, p.Due), max(sum.Created, p.Created), max(sum.Poison, p.Poison)
		sum.Latency.P99 = max(sum.Latency.P99, p.Latency.P99)
		sum.RunTime.P99 = max(sum.RunTime.P99, p.RunTime.P99)
	}
	return sum
}

// report has the counts of a source in a minute, for laws that write it themselves.
func report(queue string, since time.Time, n int64) series.Period {
	p := series.Period{Queue: queue, Since: since.Truncate(time.Minute).UnixMicro()}
	p.Started, p.Completed, p.Failed, p.Due = n, n-1, 1, 10*n
	p.Latency = series.Histogram{1, 0, n - 1}
	p.RunTime = series.Histogram{0, n}
	return p
}

func statisticsLostAnswer(t *test) {
	c := t.open()
	st, at := access.Of(c).Store, t.now(c)
	for range 2 {
		t.must(st.AddReport(t.ctx, "a", report("q", at, 5)))
	}
	t.must(st.AddReport(t.ctx, "b", report("q", at, 3)))
	t.must(st.AddReport(t.ctx, "b", report("other", at, 9)))
	want := admin.Point{Started: 8, Completed: 6, Failed: 2, Due: 50}
	got := t.statistics(t.open(), "q")
	want.Latency.P99, want.RunTime.P99 = got.Latency.P99, got.RunTime.P99
	t.failIf(fmt.Sprint(got) != fmt.Sprint(want) || got.Latency.P99 != 48*time.Microsecond,
		"got  %+v\nwant %+v", got, want)
}

func statisticsSamples(t *test) {
	c := t.open()
	q, st := c.Queue("q"), access.Of(c).Store
	t.enqueueMany(q, 30, func(i int, nt *dbq.NewTask) {
		if i >= 20 {
			nt.Delay = time.Hour
		}
	})
	t.endAll(q, t.checkout(q, 5, long)[:3], dbq.Parked(errBoom))
	t.enqueue(c.Queue("without"), dbq.NewTask{})
	t.settleNew(c.Queue("done"), dbq.NewTask{}, dbq.Completed(nil))
	minutes := time.Now().Truncate(time.Minute)
	for _, at := range []time.Time{minutes.Add(-time.Minute), minutes, minutes.Add(time.Minute)} {
		for range 2 {
			t.must(st.Sample(t.ctx, at.UnixMicro(), func(queue string) bool { return queue == "without" }))
		}
	}
	ps := must(admin.New(c).Series(t.ctx, "q", minutes.Add(-time.Hour), minutes.Add(2*time.Minute), time.Minute))
	last := ps[len(ps)-1]
	t.failIf(last.Created != 25 || last.Processing != 2 || last.Error != 3 || last.Parked != 3 || last.Due != 15 ||
		last.OldestDue <= 0 || sumOf(ps).Enqueued != 30,
		"got %+v, and %d enqueued", last, sumOf(ps).Enqueued)
	if got := t.statistics(c, "done"); got.Enqueued != 1 || got.Created != 0 {
		t.Errorf("the queue with a completed task has %+v", got)
	}
	if got := t.statistics(c, "without"); got != (admin.Point{}) {
		t.Errorf("the queue without statistics has %+v", got)
	}
}

func statisticsUnsampled(t *test) {
	c := t.open()
	st := access.Of(c).Store
	for _, minutes := range []int{0, 2, 2, 60, 7 * 60} { // two members sample the third minute
		at := longAgo.Add(time.Duration(minutes) * time.Minute).UnixMicro()
		t.must(st.Sample(t.ctx, at, func(string) bool { return false }))
	}
	t.must(st.AddReport(t.ctx, "a", report("busy", longAgo.Add(time.Minute), 5)))
	check := func(queue string, over, period time.Duration, want string) {
		ps := must(admin.New(c).Series(t.ctx, queue, longAgo, longAgo.Add(over), period))
		var got []int64
		for _, p := range ps {
			got = append(got, p.Samples)
		}
		t.failIf(fmt.Sprint(got) != want, "periods of %v of the queue %s have %v samples, want %s", period, queue, got, want)
	}
	for _, now := range []time.Time{longAgo, longAgo.AddDate(0, 0, 2)} { // before and after the roll-up
		t.must(st.RollUp(t.ctx, now.UnixMicro()))
		for _, queue := range []string{"busy", "idle"} {
			check(queue, 4*time.Minute, time.Minute, "[1 0 1 0]")
			check(queue, 9*time.Hour, time.Hour, "[2 1 0 0 0 0 0 1 0]")
			check(queue, 48*time.Hour, 24*time.Hour, "[4 0]")
		}
		all := must(admin.New(c).SeriesOf(t.ctx, nil, longAgo, longAgo.Add(4*time.Minute), time.Minute))
		t.failIf(len(all) != 1 || all[0].Queue != "busy" || all[0].Points[0].Samples != 1 || all[0].Points[1].Samples != 0,
			"the series of all queues is %+v", all)
	}
}

// longAgo is the first minute of a day, so that its rows are final.
var longAgo = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// addReports adds reports of two sources in two queues, in some minutes of each of the hours of three days.
func (t *test) addReports(c *dbq.Client) {
	st := access.Of(c).Store
	for day := range 3 {
		for _, hour := range []int{0, 7, 23} {
			for _, m := range []int{0, 1, 59} {
				at := longAgo.AddDate(0, 0, day).Add(time.Duration(hour)*time.Hour + time.Duration(m)*time.Minute)
				t.must(st.AddReport(t.ctx, "a", report("q", at, int64(hour+2))))
				t.must(st.AddReport(t.ctx, "b", report("q", at, int64(m+2))))
				t.must(st.AddReport(t.ctx, "b", report("other", at, 2)))
			}
		}
	}
}

// wholeSeries are the sums of the reports of addReports in periods of several lengths.
func (t *test) wholeSeries(c *dbq.Client) (out []string) {
	for _, period := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
		ps := must(admin.New(c).Series(t.ctx, "q", longAgo, longAgo.AddDate(0, 0, 3), period))
		busy := ps[:0:0]
		for _, p := range ps {
			if p.Started > 0 {
				busy = append(busy, p)
			}
		}
		out = append(out, fmt.Sprint(period, " ", busy))
	}
	all := must(admin.New(c).SeriesOf(t.ctx, nil, longAgo, longAgo.AddDate(0, 0, 3), 24*time.Hour))
	return append(out, fmt.Sprint(all))
}

func statisticsRollUp(t *test) {
	c, other := t.open(), t.open()
	t.addReports(c)
	before := t.wholeSeries(c)
	day := func(n int) int64 { return longAgo.AddDate(0, 0, n).UnixMicro() }
	for _, now := range []int64{day(0) + 90e6, day(0) + 3600e6, day(1) + 8*3600e6, day(3)} {
		t.concurrently(2, func(ctx context.Context, i int) {
			t.must(access.Of([]*dbq.Client{c, other}[i]).Store.RollUp(ctx, now))
		})
		for i, after := range t.wholeSeries(c) {
			if now == day(3) && i < 2 { // the minutes of the first day have been removed
				continue
			}
			t.failIf(after != before[i], "after the roll-up at %d: got  %s\nwant %s", now, after, before[i])
		}
	}
}

func statisticsRetention(t *test) {
	c := t.open()
	t.addReports(c)
	started := func(period time.Duration) int64 {
		ps := must(admin.New(c).Series(t.ctx, "q", longAgo, longAgo.AddDate(0, 0, 3), period))
		return sumOf(ps).Started
	}
	want := started(time.Minute)
	for _, at := range []struct {
		days                int
		minutes, hours, day bool
	}{{3, false, true, true}, {50, false, true, true}, {64, false, false, true}, {729, false, false, true},
		{740, false, false, false}} {
		t.must(access.Of(c).Store.RollUp(t.ctx, longAgo.AddDate(0, 0, at.days).UnixMicro()))
		for period, kept := range map[time.Duration]bool{time.Minute: at.minutes, time.Hour: at.hours,
			24 * time.Hour: at.day} {
			if got := started(period); got > want || (got == want) != kept {
				t.Errorf("after %d days, periods of %v have %d of %d attempts", at.days, period, got, want)
			}
		}
	}
}
