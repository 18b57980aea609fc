package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// frontLeast is how large a checkout must be to begin at the front although looks from the start are quick.
	frontLeast = 100
	// frontFor is how long a front is good for; then a checkout looks from the start again. When that took long, the front is good for
	// lookShare times as long, but not for longer than frontMost.
	frontFor, frontMost = time.Second, 30 * time.Second
	lookShare           = 20
	// slowLook and slowTask are what a quick look from the start takes at most, and each task that it takes: about ten times what
	// they do when nothing is in the way. A longer one is slow when the table has so many dead rows, too: it may be the machine that is.
	slowLook, slowTask = 10 * time.Millisecond, 200 * time.Microsecond
	slowDead           = 50_000
	// lateEnqueue is how long after it enqueued tasks a transaction may commit, for them to be found without such a look, where looks are slow.
	lateEnqueue = 5 * time.Second
)

// fromStart is :since of a search that begins at the start of the index, for each priority.
var fromStart = make([]int64, 10)

// An asker runs one of the statements of Checkout that only reads, and a taker the search that takes.
type (
	asker func(name string, args dialect.Args) ([]dialect.Row, error)
	taker func(args dialect.Args) ([]dialect.Row, error)
)

// front is where this client's checkouts of a queue begin to find due tasks, by priority. The index has an entry for each task that was
// taken since the last vacuum, and a search from the start passes all of them: hundreds of thousands while a transaction is held open
// anywhere in the database. Large checkouts begin at the front; small ones, too, when looks from the start are slow, and otherwise find
// their tasks in strict order each time. What is due for longer than the front, because its transaction committed late or somebody
// asked for it, and leases that ran out, are found when the front is over.
type front struct {
	mu    sync.Mutex
	since []int64 // nil is none
	until time.Time
	slow  bool // the last look from the start
}

// front is that of the checkout's queue.
func (c *checkout) front() *front {
	f, _ := c.s.Memory.LoadOrStore("front "+c.r.Queue, &front{})
	return f.(*front)
}

// fromFront takes due tasks from the front of the queue on, or from the start when there is none or it is over.
func (c *checkout) fromFront(limit int, ask asker, take taker) ([]dialect.Row, error) {
	args, f := c.args(limit), c.front()
	since := f.get(limit)
	if c.ahead = since != nil; c.ahead {
		args["since"] = since
	} else {
		since = fromStart
	}
	begin := time.Now()
	rows, err := take(args)
	if err != nil {
		return rows, err
	}
	if !c.ahead {
		if err := c.looked(time.Since(begin), len(rows), ask); err != nil {
			return rows, err
		}
	}
	switch slow := f.isSlow(); {
	case len(rows) == limit && (slow || limit >= frontLeast):
		f.put(rows, since, slow)
	case c.ahead:
	case slow: // it went through all that was due
		at, err := c.lately(rows, ask)
		if err != nil {
			return rows, err
		}
		f.pass(at)
	default: // there is no backlog any more
		f.set(nil)
	}
	return rows, nil
}

// lately is a time by the database's clock before which all was committed that is due.
func (c *checkout) lately(rows []dialect.Row, ask asker) (int64, error) {
	if len(rows) == 0 {
		var err error
		if rows, err = ask("now", nil); err != nil {
			return 0, err
		}
	}
	return rows[0].Now - lateEnqueue.Microseconds(), nil
}

// looked notes how long a look from the start took that found some tasks.
func (c *checkout) looked(took time.Duration, found int, ask asker) error {
	slow, err := c.slow(took, found, ask)
	good := frontFor
	if slow {
		good = min(max(frontFor, lookShare*took), frontMost)
	}
	f := c.front()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow, f.until = slow, time.Now().Add(good)
	return err
}

// slow tells whether a search that found some tasks took long for what it had to pass.
func (c *checkout) slow(took time.Duration, found int, ask asker) (bool, error) {
	if took <= slowLook+time.Duration(found)*slowTask {
		return false, nil
	}
	rows, err := ask("dead", dialect.Args{"dead": slowDead})
	return len(rows) > 0, err
}

func (f *front) isSlow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slow
}

// get is the front, or nil for a checkout that is to look from the start.
func (f *front) get(limit int) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.After(f.until) {
		f.until = now.Add(frontFor)
		return nil
	}
	if limit < frontLeast && !f.slow {
		return nil
	}
	return f.since
}

// put moves the front to the first of rows, for each priority that has some. The search went through the better priorities; when looks
// are slow it need not do so again. For the others the front stays where it was.
func (f *front) put(rows []dialect.Row, was []int64, slow bool) {
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

func (f *front) set(since []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
}

// pass moves the front of all priorities over what was due before a time.
func (f *front) pass(at int64) { f.set(slices.Repeat([]int64{at}, len(fromStart))) }
