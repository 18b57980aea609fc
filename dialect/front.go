package dialect

import (
	"slices"
	"sync"
	"time"
)

const (
	// frontLeast is how large a checkout must be to begin at the front although looks from the start are quick.
	frontLeast = 100
	// frontFor is how long a front is good for; then a checkout looks from the start again. When that took long, the front is good for
	// lookShare times as long, but not for longer than frontMost.
	frontFor, frontMost = time.Second, 30 * time.Second
	lookShare           = 20
	// slowLook and slowTask are what a quick look from the start takes at most, and each task that it takes: about ten times what
	// they do when nothing is in the way. A longer one is slow when there are many dead entries, too: it may be the machine that is.
	slowLook, slowTask = 10 * time.Millisecond, 200 * time.Microsecond
	// lateEnqueue is how long after it enqueued tasks a transaction may commit, for them to be found without such a look, where looks are slow.
	lateEnqueue = 5 * time.Second
)

// FromStart is Since of a look that begins at the start of the index, for each priority.
var FromStart = make([]int64, 10)

// A Front is where this client's checkouts of a queue begin to find due tasks, by priority. An index has an entry for each task that was
// taken until the server removes it, and a search from the start passes all of them: hundreds of thousands while a transaction is held open
// anywhere in the database. Large checkouts begin at the front; small ones, too, when looks from the start are slow, and otherwise find
// their tasks in strict order each time. What is due for longer than the front, because its transaction committed late or another client
// asked for it, and leases that ran out, are found when the front is over, as it is once a question from the start says that something is due. Another process has fronts of its own. A dialect need not use them.
type Front struct {
	mu    sync.Mutex
	since []int64 // nil is none
	until time.Time
	slow  bool // the last look from the start
	taken int
}

// Front is that of a queue.
func (s *Session) Front(queue string) *Front {
	f := s.Remembered("front "+queue, &Front{})
	return f.(*Front)
}

// End ends the front: the next look is from the start. It is for who knows that something stands before it.
func (f *Front) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Time{}
}

// Late is told of a task that this client added, for how long it has been due: checkouts are to find it at once.
func (f *Front) Late(by time.Duration) {
	if by > lateEnqueue {
		f.End()
	}
}

// Dead tells whether a search from the start, which took long, had many dead entries to pass.
type Dead func() (bool, error)

// A Look is one search for due tasks.
type Look struct {
	// Since is, for each priority, when the first task that may be found had become due, in microseconds.
	Since []int64
	// Ahead says that it begins at the front: another one looks from the start, and for leases that ran out, when the front is over.
	Ahead bool

	front *Front
	limit int
}

// Look begins a search for up to limit tasks. Told what it found, by Found or Asked, it moves the front.
func (f *Front) Look(limit int) Look {
	l := Look{Since: FromStart, front: f, limit: limit}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.After(f.until) {
		f.until = now.Add(frontFor) // one of several looks from the start
	} else if f.since != nil && (limit >= frontLeast || f.slow) {
		l.Since, l.Ahead = f.since, true
	}
	return l
}

// Found ends a look that took rows, in a time, and moves the front to the first of them. dead and now, the time by the database's clock, are asked only when it
// matters. An error is one of theirs; nothing but the pace depends on it.
func (l Look) Found(rows []Row, took time.Duration, dead Dead, now func() (int64, error)) error {
	f := l.front
	if !l.Ahead {
		if err := f.looked(took, len(rows), dead); err != nil {
			return err
		}
	}
	f.mu.Lock()
	f.taken += len(rows)
	slow := f.slow
	f.mu.Unlock()
	switch {
	case (len(rows) == l.limit || isCut(rows)) && (slow || l.limit >= frontLeast):
		f.put(rows, l.Since, slow)
	case l.Ahead || isCut(rows):
	case slow: // it went through all that was due
		if len(rows) > 0 {
			f.pass(rows[0].Now)
			return nil
		}
		at, err := now()
		if err == nil {
			f.pass(at)
		}
		return err
	case len(rows) < l.limit: // there is no backlog any more
		f.set(nil)
	}
	return nil
}

// Asked ends a look that only asked when something is due, and says whether it was slow.
func (l Look) Asked(next Row, took time.Duration, dead Dead) (slow bool, err error) {
	f := l.front
	if l.Ahead {
		return false, nil
	}
	if err := f.looked(took, 0, dead); err != nil {
		return false, err
	}
	f.mu.Lock()
	slow = f.slow
	f.mu.Unlock()
	switch {
	case next.Due != nil && *next.Due <= next.Now: // perhaps before the front: the checkout that follows is to find it
		f.End()
	case slow: // it went through all that was due
		f.pass(next.Now)
	}
	return slow, nil
}

// Taken is how many tasks this client has taken from the queue.
func (f *Front) Taken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken
}

// looked notes how long a look from the start took that found some tasks.
func (f *Front) looked(took time.Duration, found int, dead Dead) error {
	slow, err := isSlow(took, found, dead)
	good := frontFor
	if slow {
		good = min(max(frontFor, lookShare*took), frontMost)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow, f.until = slow, time.Now().Add(good)
	return err
}

// isSlow tells whether a search that found some tasks took long for what it had to pass.
func isSlow(took time.Duration, found int, dead Dead) (bool, error) {
	if took <= slowLook+time.Duration(found)*slowTask {
		return false, nil
	}
	return dead()
}

// put moves the front to the first of rows, for each priority that has some. The search went through the better priorities; when looks
// are slow it need not do so again. For the others the front stays where it was.
func (f *Front) put(rows []Row, was []int64, slow bool) {
	since, seen, last := slices.Clone(was), [10]bool{}, 0
	for _, r := range rows {
		if p := r.Priority; !seen[p] || r.WasDue < since[p] {
			since[p], seen[p] = r.WasDue, true
			last = max(last, p)
		}
	}
	for p := range last {
		if !seen[p] && slow {
			since[p] = max(since[p], rows[0].Now-lateEnqueue.Microseconds())
		}
	}
	f.set(since)
}

// pass moves the front of all priorities over what was due at a time and is committed already.
func (f *Front) pass(now int64) {
	f.set(slices.Repeat([]int64{now - lateEnqueue.Microseconds()}, len(FromStart)))
}

func (f *Front) set(since []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
}
