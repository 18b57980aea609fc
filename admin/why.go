package admin

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// Cause is why tasks wait.
type Cause string

// The causes, in the order in which Why looks for them: the first one that applies is the verdict.
const (
	CausePaused        Cause = "paused"         // the queue is paused
	CauseNoWorker      Cause = "no_worker"      // no worker has reported, or all have stopped without notice
	CauseWorkersPaused Cause = "workers_paused" // all workers are paused, or are stopping
	CauseRate          Cause = "rate"           // the rate of the queue allows no start
	CauseConcurrency   Cause = "concurrency"    // as many tasks are leased as the limit of the queue allows
	CauseKeys          Cause = "keys"           // the limit, the rate or the order of the keys of all due tasks
	CauseBusy          Cause = "busy"           // all workers run as many tasks as they can
	CauseNoHandler     Cause = "no_handler"     // workers have met kinds that they have no handler for
	CauseNotDue        Cause = "not_due"        // no task is due
	CauseStarting      Cause = "starting"       // nothing holds the tasks up: they are about to start
	CauseUnknown       Cause = "unknown"        // nothing that is known holds them up, and yet they wait
	CauseEmpty         Cause = "empty"          // no task waits
	CauseParked        Cause = "parked"         // of a task: it waits for an operator
	CauseSteps         Cause = "steps"          // of a task: it waits for other steps of its workflow
)

// Verdict is why the tasks of a queue wait, with the numbers that it is based on, and how long they still do.
type Verdict struct {
	Queue string `json:"queue"`
	Cause Cause  `json:"cause"`
	// Answer is the verdict as a sentence or two, and Detail further numbers. Detail ends with what is not the reason.
	Answer string `json:"answer"`
	Detail string `json:"detail,omitempty"`
	// Excluded lists what is not the reason.
	Excluded []Cause `json:"excluded,omitempty" nullable:"false"`

	// Waiting counts the tasks in CREATED and those that wait for a retry, and Due those of them that are due. With
	// AtLeast, there may be more of both.
	Waiting int64 `json:"waiting"`
	Due     int64 `json:"due"`
	AtLeast bool  `json:"at_least,omitempty"`
	// OldestDue is how long the oldest due task has been due.
	OldestDue time.Duration `json:"-"`
	Running   int64         `json:"running"` // tasks in PROCESSING
	// Workers counts those that are alive, and Dead those that have stopped without notice within a day. Slots is how
	// many tasks the living ones run at once, or 0 if one of them does not report it, and Busy how many slots are taken.
	Workers int `json:"workers"`
	Dead    int `json:"dead,omitempty"`
	Slots   int `json:"slots"`
	Busy    int `json:"busy"`
	// NoHandler lists the kinds that workers have met lately and have no handler for.
	NoHandler []string `json:"no_handler,omitempty" nullable:"false"`
	// StartsLeft is how many tasks the rate of the queue lets start now. If it is 0, the next may start in NextStart.
	StartsLeft int           `json:"starts_left,omitempty"`
	NextStart  time.Duration `json:"-"`
	// Key is the key with the most waiting tasks, KeyWaiting counts these, and FirstTask is the task that must end before
	// the next of them starts. They are set for CauseKeys only, and FirstTask only in a queue with an order.
	Key        string    `json:"key,omitempty"`
	KeyWaiting int       `json:"key_waiting,omitempty"`
	FirstTask  uuid.UUID `json:"first_task_id,omitzero"`
	// NextDue is how long it is until a task is due, for CauseNotDue if that is known.
	NextDue time.Duration `json:"-"`
	// Drain is how long it is until all due tasks have started: by the rate of the queue, less what is enqueued, if that
	// is the cause, and otherwise at the pace of the last 10 minutes. It is 0 if it is not known, or if the queue grows.
	// With AtLeast, it can be longer.
	Drain time.Duration `json:"-"`

	reason string             // the sentence of Answer about the cause
	keys   map[string]KeyInfo // nil if they were not read
	cut    bool               // keys are those of the first waiting tasks only
}

// String returns the answer and the detail.
func (v Verdict) String() string { return strings.TrimSpace(v.Answer + " " + v.Detail) }

// Facts are the part of a verdict's evidence that Stats, Queues and Workers have for all queues.
type Facts struct {
	Stats   QueueStats
	Info    QueueInfo    // the zero value if Queues does not list the queue
	Workers []WorkerInfo // of this queue, or of all
	Failing Failing      // the zero value if attempts fail no more often than usual
}

// evidence is the part that Why reads besides the facts. The zero value is none.
type evidence struct {
	keys    *KeyList
	nextDue time.Duration // 0 is unknown
	pace    pace
}

// pace is how many tasks come and go in a minute. The zero value is unknown.
type pace struct{ in, out float64 }

// How far Why looks back for the pace, and how long after the end of a minute its statistics are there.
const (
	paceOver     = 10 * time.Minute
	reportsAfter = 10 * time.Second
)

// Why returns why the tasks of a queue wait, and how long until the queue has none that are due. It counts tasks as
// StatsOf does, and reads the registry of workers, the limits, the statistics of the last minutes and, if many attempts
// have failed in these, of the last day, and in a queue with limits or an order of keys, up to 1,000 tasks in each
// state. Its cost does not grow with the table.
func (a *Admin) Why(ctx context.Context, queue string) (Verdict, error) {
	var f Facts
	var err error
	if f.Stats, err = a.StatsOf(ctx, queue); err != nil {
		return Verdict{}, err
	}
	q, err := a.core.Control.Queue(ctx, queue)
	if err != nil {
		return Verdict{}, err
	}
	f.Info = infoOf(q)
	if f.Workers, err = a.Workers(ctx); err != nil {
		return Verdict{}, err
	}
	failing, err := a.Failing(ctx, queue)
	if err != nil {
		return Verdict{}, err
	}
	if len(failing) > 0 {
		f.Failing = failing[0]
	}
	return a.WhyOf(ctx, f)
}

// WhyOf is Why for facts that the caller has read before.
func (a *Admin) WhyOf(ctx context.Context, f Facts) (Verdict, error) {
	v, e := f.Verdict(), evidence{}
	var err error
	switch v.Cause {
	case CauseEmpty, CausePaused, CauseNoWorker, CauseWorkersPaused:
		return v, nil
	}
	queue := f.Stats.Queue
	switch {
	case v.Due > 0:
		if f.Info.Limits.holdKeys() {
			keys, err := a.keys(ctx, queue, f.Info.Limits)
			if err != nil {
				return v, err
			}
			e.keys = &keys
		}
		if e.pace, err = a.pace(ctx, queue); err != nil {
			return v, err
		}
	case v.Running == 0: // otherwise NextDue may be the end of a lease
		wait, _, err := a.store.NextDue(ctx, queue)
		if err != nil {
			return v, a.wrap("why", queue, err)
		}
		e.nextDue = wait
	}
	return f.judge(e), nil
}

// holdKeys reports whether the limits can hold up tasks because of their key.
func (l QueueLimits) holdKeys() bool {
	return l.KeyConcurrency > 0 || l.KeyRate != Rate{} || l.Order != OrderNone
}

// pace reads how many tasks of a queue came and went in a minute lately. It is unknown while nothing was counted.
func (a *Admin) pace(ctx context.Context, queue string) (p pace, err error) {
	now, err := a.client.Now(ctx)
	if err != nil {
		return p, err
	}
	to := now.Add(-reportsAfter).Truncate(time.Minute)
	points, err := a.Series(ctx, queue, to.Add(-paceOver), to, time.Minute)
	begun := slices.IndexFunc(points, func(p Point) bool { return p.Samples > 0 })
	if err != nil || begun < 0 {
		return p, err
	}
	var in, out, sampled int64
	for _, p := range points[begun:] {
		in, sampled = in+p.Enqueued, sampled+min(p.Samples, 1)
		out += p.Completed + p.Poisoned
	}
	return pace{float64(in) / float64(sampled), float64(out) / float64(len(points)-begun)}, nil
}

// Verdict judges the facts without reading anything more. So it does not find limits of keys, and knows no pace: see
// Admin.WhyOf.
func (f Facts) Verdict() Verdict { return f.judge(evidence{}) }

// startsWithin is how long a due task may wait for a worker that has a free slot before its cause is unknown: an idle
// worker polls more often than that.
const startsWithin = 30 * time.Second

func (f Facts) judge(e evidence) Verdict {
	v, stopping, deadSince := f.count()
	l, due := f.Info.Limits, v.Due > 0
	free := v.Slots - v.Busy
	allowed := f.Info.allowed
	rated := l.Rate != (Rate{}) && v.Due > int64(allowed.Starts) &&
		(allowed.Starts == 0 || allowed.Used && (free > 0 || v.Slots == 0))
	held := e.keys != nil && e.keys.due > 0 && e.keys.mayRun == 0 // all that were read
	busy := due && v.Slots > 0 && free <= 0
	v.cut = e.keys != nil && e.keys.cut
	checks := []struct {
		cause          Cause
		applies, known bool
	}{
		{CausePaused, f.Info.Paused, true},
		// A program can check out tasks without a worker, and then does not report itself.
		{CauseNoWorker, v.Workers == 0 && (v.Dead > 0 || v.Running == 0 || v.OldestDue >= startsWithin),
			v.Workers > 0 && stopping < v.Workers},
		{CauseWorkersPaused, v.Workers > 0 && stopping == v.Workers, false},
		{CauseRate, due && rated, due},
		{CauseConcurrency, due && l.Concurrency > 0 && v.Running >= int64(l.Concurrency), due},
		// Keys that were not read may have tasks that can start: then it is the slots that they wait for.
		{CauseKeys, held && !(v.cut && busy), due && (e.keys != nil && !held || !l.holdKeys())},
		{CauseBusy, busy, due && v.Slots > 0},
		{CauseNoHandler, len(v.NoHandler) > 0, false},
		{CauseNotDue, !due, false},
		{CauseStarting, v.OldestDue < startsWithin, false},
		{CauseUnknown, true, false},
	}
	if v.Cause = ""; v.Waiting == 0 && !f.Info.Paused {
		v.Cause, checks = CauseEmpty, nil
	}
	for _, c := range checks {
		switch {
		case c.applies && v.Cause == "":
			v.Cause = c.cause
		case !c.applies && c.known:
			v.Excluded = append(v.Excluded, c.cause)
		}
	}
	if l.Rate != (Rate{}) {
		v.StartsLeft, v.NextStart = allowed.Starts, allowed.Wait
	}
	if e.keys != nil {
		v.keys = map[string]KeyInfo{}
		for _, k := range e.keys.Keys {
			v.keys[k.Key] = k
		}
		if v.Cause == CauseKeys {
			k := e.keys.Keys[0] // the one with the most waiting tasks
			v.Key, v.KeyWaiting, v.FirstTask = k.Key, k.Waiting, k.First.ID
		}
	}
	v.NextDue = e.nextDue
	v.estimate(l, e.pace)
	f.explain(&v, e.pace, deadSince)
	return v
}

// count returns a verdict that has the numbers of the facts only, how many of the living workers take no more tasks,
// and when the last one of the dead reported.
func (f Facts) count() (v Verdict, stopping int, deadSince time.Time) {
	s := f.Stats
	v = Verdict{
		Queue: s.Queue, Due: s.Due, OldestDue: s.OldestDue, Running: s.Count[dbq.StateProcessing],
		AtLeast: slices.Contains(s.AtLeast, dbq.StateCreated), NoHandler: NoHandlers(f.Workers)[s.Queue],
	}
	v.Waiting = max(s.Count[dbq.StateCreated]+max(s.Count[dbq.StateError]-s.Parked, 0), s.Due)
	unknown, lost := false, 0
	for _, w := range f.Workers {
		switch {
		case w.Queue != s.Queue:
			continue
		case w.Dead:
			v.Dead, lost = v.Dead+1, lost+w.Holding
			if w.Seen.After(deadSince) {
				deadSince = w.Seen
			}
			continue
		}
		busy, slots := min(w.Holding, w.Concurrency), w.Concurrency // a worker can lease ahead
		if w.State == WorkerPaused || w.State == WorkerStopping {
			stopping++
			slots = busy // the others start nothing
		}
		v.Workers, v.Slots, v.Busy = v.Workers+1, v.Slots+slots, v.Busy+busy
		unknown = unknown || w.Concurrency == 0
	}
	// A worker reports a few times a minute, and the count of the running tasks is newer.
	v.Busy = max(v.Busy, min(int(v.Running)-lost, v.Slots))
	if unknown {
		v.Slots, v.Busy = 0, 0
	}
	return v, stopping, deadSince
}

// estimate sets how long it is until all due tasks have started.
func (v *Verdict) estimate(l QueueLimits, p pace) {
	seconds := 0.0
	switch {
	case v.Due == 0:
	case v.Cause == CauseRate:
		rest := float64(l.Rate.Starts)/l.Rate.Per.Seconds() - p.in/60 // others come meanwhile
		if rest <= 0 {
			break // it grows
		}
		seconds = v.NextStart.Seconds() + float64(v.Due-int64(max(v.StartsLeft, 1)))/rest
	case v.paced() && p.out > p.in:
		seconds = float64(v.Due) / (p.out - p.in) * 60
	}
	v.Drain = time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
}

// paced reports whether tasks of the queue go on to end, at some pace.
func (v *Verdict) paced() bool {
	switch v.Cause {
	case CauseConcurrency, CauseKeys, CauseBusy, CauseStarting, CauseUnknown:
		return v.Due > 0
	}
	return false
}

// explain writes the sentences.
func (f Facts) explain(v *Verdict, p pace, deadSince time.Time) {
	v.reason = f.reason(v, deadSince)
	v.Answer = strings.TrimSpace(v.waiting() + " " + v.reason)
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if v.Cause == CausePaused && !f.Info.Since.IsZero() {
		add("It has been paused for %s.", lasts(time.Since(f.Info.Since)))
	}
	if v.Slots > 0 && v.Cause != CauseBusy && v.Cause != CauseEmpty {
		add("%s of %s busy.", grouped(v.Busy), counted(v.Slots, "slot"))
	}
	if v.Cause == CauseKeys {
		least := ""
		if v.cut {
			least = "at least "
		}
		add("Key %s has the most: %s%s waiting.", v.Key, least, grouped(v.KeyWaiting))
	}
	switch {
	case v.paced() && v.Drain > 0:
		add("At the pace of the last 10 minutes, it is empty in %s.", v.drain())
	case (v.paced() || v.Cause == CauseRate) && v.Drain == 0 && p.in > p.out:
		add("It grows: in a minute, %s come in and %s are done.", decimal(p.in), decimal(p.out))
	}
	if len(v.NoHandler) > 0 && v.Cause != CauseNoHandler {
		add("Workers have no handler for %s.", strings.Join(v.NoHandler, ", "))
	}
	if v.Dead > 0 && v.Cause != CauseNoWorker {
		add("%s stopped without notice.", have(v.Dead, "worker"))
	}
	if f.Failing.Failed > 0 {
		add("%s", f.Failing)
	}
	if len(v.Excluded) > 0 && v.Waiting > 0 {
		var not []string
		for _, c := range v.Excluded {
			not = append(not, excludedText[c])
		}
		add("Not the reason: %s.", strings.Join(not, ", "))
	}
	v.Detail = strings.Join(parts, " ")
}

var excludedText = map[Cause]string{
	CausePaused: "pause", CauseNoWorker: "workers", CauseRate: "rate", CauseConcurrency: "limit of running tasks",
	CauseKeys: "limits of keys", CauseBusy: "busy slots",
}

// waiting is how many tasks wait, as a sentence.
func (v *Verdict) waiting() string {
	if v.Waiting == 0 {
		return ""
	}
	text := grouped(v.Waiting) + " waiting"
	if v.Due == 0 {
		text = grouped(v.Waiting) + " not due yet"
	}
	if v.AtLeast {
		text = "At least " + text
	}
	if v.Due > 0 && v.Due < v.Waiting {
		text += ", " + grouped(v.Due) + " of them due"
	}
	return text + "."
}

// drain is how long it is until the queue is empty.
func (v *Verdict) drain() string {
	if v.AtLeast {
		return "at least " + lasts(v.Drain)
	}
	return lasts(v.Drain)
}

// reason is the sentence about the cause.
func (f Facts) reason(v *Verdict, deadSince time.Time) string {
	l := f.Info.Limits
	switch v.Cause {
	case CauseEmpty:
		if v.Running > 0 {
			return "Nothing waits: " + grouped(v.Running) + " running."
		}
		return "Nothing waits."
	case CausePaused:
		text := "Queue " + v.Queue + " is paused"
		if f.Info.By != "" {
			text += " by " + f.Info.By
		}
		if f.Info.Reason != "" {
			text += ": " + strings.TrimSuffix(f.Info.Reason, ".")
		}
		return text + "."
	case CauseNoWorker:
		if v.Dead == 0 {
			return "No worker has reported."
		}
		return fmt.Sprintf("No worker is left: %s stopped without notice, the last one %s ago.", have(v.Dead, "worker"),
			lasts(time.Since(deadSince)))
	case CauseWorkersPaused:
		return "All of its workers are paused or stopping."
	case CauseRate:
		if v.Drain == 0 {
			return "Starts are limited to " + l.Rate.words() + "."
		}
		return fmt.Sprintf("Starts are limited to %s: %s to drain.", l.Rate.words(), v.drain())
	case CauseConcurrency:
		return fmt.Sprintf("The queue may run %s at once, and %s run.", counted(l.Concurrency, "task"), grouped(v.Running))
	case CauseKeys:
		return l.keysReason()
	case CauseBusy:
		return fmt.Sprintf("All slots of its workers are busy: %s of %s.", grouped(v.Busy), grouped(v.Slots))
	case CauseNoHandler:
		return fmt.Sprintf("Workers have no handler for %s: tasks of such a kind go back to the queue and come again.",
			strings.Join(v.NoHandler, ", "))
	case CauseNotDue:
		if v.NextDue > 0 {
			return "The next one is due in " + lasts(v.NextDue) + "."
		}
		return ""
	}
	if l.holdKeys() && v.keys == nil {
		return "The limits, the rate or the order of its keys may hold them up: see its keys."
	}
	if v.Cause == CauseStarting {
		return "Nothing holds them up."
	}
	return "Nothing that is known holds them up, but the oldest has been due for " + lasts(v.OldestDue) +
		": see the logs of the workers."
}

// keysReason is the sentence about keys that hold all due tasks up.
func (l QueueLimits) keysReason() string {
	switch {
	case l.Order != OrderNone:
		return "The tasks of a key run one after the other, and each key with due tasks waits for an earlier one."
	case l.KeyRate == (Rate{}):
		return fmt.Sprintf("Each key may run %s at once, and each key with due tasks does.",
			counted(l.KeyConcurrency, "task"))
	case l.KeyConcurrency == 0:
		return fmt.Sprintf("Starts of each key are limited to %s, and each key with due tasks has used them up.",
			l.KeyRate.words())
	}
	return fmt.Sprintf("Each key may run %s at once and start %s, and each key with due tasks has used that up.",
		counted(l.KeyConcurrency, "task"), l.KeyRate.words())
}

// ForTask returns why a task of the verdict's queue waits, at a time by the database's clock. Its Cause is "" if the
// task does not wait.
func (v Verdict) ForTask(t dbq.Task, now time.Time) Verdict {
	none := v.Cause == CausePaused || v.Cause == CauseNoWorker || v.Cause == CauseWorkersPaused // starts at all
	held := none || v.Cause == CauseRate || v.Cause == CauseConcurrency
	k, keyed := v.keys[t.Key]
	switch {
	case t.Parked():
		return v.only(CauseParked, "It is parked, and waits until someone retries, cancels or deletes it.", "")
	case t.State != dbq.StateCreated && t.State != dbq.StateError:
		return Verdict{Queue: v.Queue}
	case t.Blocked:
		return v.only(CauseSteps, "It waits for other steps of its workflow.", "")
	case t.Due.After(now):
		text := "It is due in " + lasts(t.Due.Sub(now)) + "."
		if t.State == dbq.StateError {
			text = fmt.Sprintf("Attempt %d failed. The next one is due in %s.", t.Attempt, lasts(t.Due.Sub(now)))
		}
		detail := ""
		if none {
			detail = v.reason
		}
		out := v.only(CauseNotDue, text, detail)
		out.NextDue = t.Due.Sub(now)
		return out
	case !none && slices.Contains(v.NoHandler, t.Kind):
		return v.only(CauseNoHandler, "The workers of its queue have no handler for its kind, "+t.Kind+".", "")
	case !held && keyed && k.holds(t):
		out := v.only(CauseKeys, k.reason(), v.Detail)
		out.Key, out.KeyWaiting, out.FirstTask = k.Key, k.Waiting, k.First.ID
		return out
	}
	switch v.Cause {
	case CauseEmpty, CauseNotDue, CauseKeys, CauseNoHandler, CauseStarting, CauseUnknown: // not of this task
		switch waited := now.Sub(t.Due); {
		case v.cut && t.Key != "" && !keyed:
			return v.only(CauseUnknown, "The limits, the rate or the order of its key, "+t.Key+", may hold it up: too many "+
				"tasks are before it.", v.Detail)
		case waited >= startsWithin:
			return v.only(CauseUnknown, "Nothing that is known holds it up, but it has been due for "+lasts(waited)+".",
				v.Detail)
		}
		return v.only(CauseStarting, "Nothing holds it up.", v.Detail)
	}
	v.Answer, v.Detail = v.reason, strings.TrimSpace(v.waiting()+" "+v.Detail)
	return v
}

// only returns the verdict on one task.
func (v Verdict) only(c Cause, answer, detail string) Verdict {
	return Verdict{Queue: v.Queue, Cause: c, Answer: answer, Detail: detail}
}

// reason is the sentence about a task that its key holds up.
func (k KeyInfo) reason() string {
	switch {
	case k.Full:
		return fmt.Sprintf("%s of its key, %s, run: the limit of a key is reached.", grouped(k.Running), k.Key)
	case k.NextStart > 0:
		return fmt.Sprintf("The rate of its key, %s, allows the next start in %s.", k.Key, lasts(k.NextStart))
	}
	state := k.First.State.String()
	if k.First.Parked() {
		state += ", parked"
	}
	return fmt.Sprintf("The tasks of its key, %s, run one after the other, and an earlier one is in %s.", k.Key, state)
}

// words writes a rate: 120 a minute.
func (r Rate) words() string {
	switch r.Per {
	case time.Second:
		return grouped(r.Starts) + " a second"
	case time.Minute:
		return grouped(r.Starts) + " a minute"
	case time.Hour:
		return grouped(r.Starts) + " an hour"
	case 24 * time.Hour:
		return grouped(r.Starts) + " a day"
	}
	return grouped(r.Starts) + " in " + lasts(r.Per)
}

// lasts writes a duration in words, to two digits: 3.8 minutes.
func lasts(d time.Duration) string {
	unit, name := 24*time.Hour, "day"
	switch {
	case d < time.Second:
		return "less than a second"
	case d < 90*time.Second:
		unit, name = time.Second, "second"
	case d < 90*time.Minute:
		unit, name = time.Minute, "minute"
	case d < 36*time.Hour:
		unit, name = time.Hour, "hour"
	}
	text := decimal(d.Seconds() / unit.Seconds())
	if text != "1" {
		name += "s"
	}
	return text + " " + name
}

// decimal writes a number with one digit after the point if it is small.
func decimal(x float64) string {
	if x < 10 {
		return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
	}
	return grouped(int64(math.Round(min(x, 1e15))))
}

// counted writes a number of things: 1 task, 2,000 tasks.
func counted(n int, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return grouped(n) + " " + name + "s"
}

// have begins a sentence about things that have done something: 1 worker has, 2 workers have.
func have(n int, name string) string {
	if n == 1 {
		return counted(n, name) + " has"
	}
	return counted(n, name) + " have"
}

// grouped writes a whole number with separators: 12,345.
func grouped[N int | int64](n N) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
