package postgres

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// frontLeast is how large a checkout must be to begin at the front: a small one finds its tasks in strict order each time.
	frontLeast = 100
	// frontFor is how long a front is good for; then a checkout looks from the start again. When that took long, it is good for
	// frontShare times as long, but not for longer than frontMost.
	frontFor, frontMost = time.Second, 30 * time.Second
	frontShare          = 20
)

// fromStart is :since of a search that begins at the start of the index, for each priority.
var fromStart = make([]int64, 10)

// front is where this client's last large checkout of a queue that filled up began to find tasks, by priority. The index has an entry for
// each task that was taken since the last vacuum, and a search from the start passes all of them: hundreds of thousands while a transaction is
// held open anywhere in the database. What is due for longer than the front, because its transaction committed late or somebody asked for
// it, and leases that ran out, are found when that is over.
type front struct {
	mu    sync.Mutex
	since []int64 // nil is none
	until time.Time
}

// front is that of the checkout's queue.
func (c *checkout) front() *front {
	f, _ := c.s.Memory.LoadOrStore("front "+c.r.Queue, &front{})
	return f.(*front)
}

// fromFront takes due tasks from the front of the queue on, or from the start when there is none or it is old.
func (c *checkout) fromFront(limit int, take func(args dialect.Args) ([]dialect.Row, error)) ([]dialect.Row, error) {
	args := c.args(limit)
	if limit < frontLeast {
		return take(args)
	}
	f := c.front()
	if since := f.get(); since != nil {
		c.ahead = true
		args["since"] = since
	}
	begin := time.Now()
	rows, err := take(args)
	if !c.ahead {
		f.looked(time.Since(begin))
	}
	switch {
	case err != nil:
	case len(rows) == limit:
		f.put(rows)
	case !c.ahead: // there is no backlog any more
		f.drop()
	}
	return rows, err
}

// looked notes how long a look from the start took.
func (f *front) looked(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Now().Add(min(max(frontFor, frontShare*took), frontMost))
}

func (f *front) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = nil
}

// get is the front, or nil when it is time for one to look from the start.
func (f *front) get() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.After(f.until) {
		f.until = now.Add(frontFor)
		return nil
	}
	return f.since
}

// put moves the front to the first of rows, for each priority that has some, and to the start for the others.
func (f *front) put(rows []dialect.Row) {
	since, seen := make([]int64, len(fromStart)), [10]bool{}
	for _, r := range rows {
		if p := r.Priority; !seen[p] || r.WasDue < since[p] {
			since[p], seen[p] = r.WasDue, true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
}
