package series

import "sync/atomic"

// Counts are numbers of events of a queue's tasks in some time.
type Counts struct {
	Enqueued  int64 // tasks
	Started   int64 // attempts
	Completed int64 // tasks
	Failed    int64 // attempts that ended with an error
	Poisoned  int64 // tasks that went to POISON
	Released  int64 // attempts that ended without an outcome
	Latency   Histogram
	RunTime   Histogram
}

// Add adds the counts of another time or place.
func (c *Counts) Add(o *Counts) {
	c.Enqueued += o.Enqueued
	c.Started += o.Started
	c.Completed += o.Completed
	c.Failed += o.Failed
	c.Poisoned += o.Poisoned
	c.Released += o.Released
	c.Latency.Add(o.Latency)
	c.RunTime.Add(o.RunTime)
}

// Depth has the numbers of a queue's tasks at one time, or the highest of several times.
type Depth struct {
	Created, Processing, Error, Poison int64 // by state
	Due, Parked                        int64
	OldestDue                          int64 // how long the oldest due task has been due, in microseconds
}

// Raise replaces each number that is higher at another time.
func (d *Depth) Raise(o Depth) {
	d.Created, d.Processing = max(d.Created, o.Created), max(d.Processing, o.Processing)
	d.Error, d.Poison = max(d.Error, o.Error), max(d.Poison, o.Poison)
	d.Due, d.Parked, d.OldestDue = max(d.Due, o.Due), max(d.Parked, o.Parked), max(d.OldestDue, o.OldestDue)
}

// Period is a time of a queue. It begins at Since, in microseconds since 1970.
type Period struct {
	Queue string
	Since int64
	Counts
	Depth
}

// Add adds another period, or a part of the same.
func (p *Period) Add(o *Period) {
	p.Counts.Add(&o.Counts)
	p.Raise(o.Depth)
}

// Tally counts the work of a worker. Adding to it costs a few nanoseconds and never waits. Its counters only grow, so
// nothing is lost between two calls of Since. All fields are safe for concurrent use; Since is not.
type Tally struct {
	Started, Completed, Failed, Poisoned, Released atomic.Int64

	Latency Recorder // from when a task was due until its attempt began
	RunTime Recorder // of attempts

	// At the last call of Since:
	before                   Counts
	latencyThen, runTimeThen [buckets]int64
}

// Since returns the counts since the last call, and whether there are any.
func (t *Tally) Since() (c Counts, some bool) {
	add := func(to, before *int64, from *atomic.Int64) {
		now := from.Load()
		*to, *before = now-*before, now
		some = some || *to != 0
	}
	b := &t.before
	add(&c.Started, &b.Started, &t.Started)
	add(&c.Completed, &b.Completed, &t.Completed)
	add(&c.Failed, &b.Failed, &t.Failed)
	add(&c.Poisoned, &b.Poisoned, &t.Poisoned)
	add(&c.Released, &b.Released, &t.Released)
	c.Latency, c.RunTime = t.Latency.since(&t.latencyThen), t.RunTime.since(&t.runTimeThen)
	return c, some || len(c.RunTime) > 0
}
