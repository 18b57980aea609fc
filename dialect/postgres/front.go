package postgres

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// frontLeast is how large a checkout must be to begin at the front: a small one finds its tasks in strict order each time.
	frontLeast = 100
	// frontFor is how long a front is good for; then a checkout looks from the start again.
	frontFor = time.Second
)

// fromStart is :since of a search that begins at the start of the index, for each priority.
var fromStart = make([]int64, 10)

// front is where this client's last large checkout of a queue began to find tasks, by priority. The index has an entry for each task that
// was taken since the last vacuum, and a search from the start passes all of them: hundreds of thousands while a transaction is held open
// anywhere in the database. What is due for longer than the front, because its transaction committed late or somebody asked for
// it, is found within frontFor, or when nothing else is due.
type front struct {
	mu    sync.Mutex
	since []int64
	until time.Time
}

// fromFront takes due tasks from the front of the queue on, and from the start when there are none or the front is old.
func (c *checkout) fromFront(limit int, take func(args dialect.Args) ([]dialect.Row, error)) ([]dialect.Row, error) {
	args := c.args(limit)
	if limit < frontLeast {
		return take(args)
	}
	kept, _ := c.s.Memory.LoadOrStore("front "+c.r.Queue, &front{since: fromStart})
	f := kept.(*front)
	since := f.get()
	args["since"] = since
	rows, err := take(args)
	if err == nil && len(rows) == 0 && &since[0] != &fromStart[0] {
		return take(c.args(limit))
	}
	f.put(rows, since)
	return rows, err
}

// get is the front, or the start when it is time for one to look from there.
func (f *front) get() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.After(f.until) {
		f.until = now.Add(frontFor)
		return fromStart
	}
	return f.since
}

// put moves the front to the first of rows, of each priority that has some. from is where they were looked for.
func (f *front) put(rows []dialect.Row, from []int64) {
	if len(rows) == 0 {
		return
	}
	since := append([]int64(nil), from...)
	seen := [10]bool{}
	for _, r := range rows {
		if p := r.Priority; !seen[p] || r.WasDue < since[p] {
			since[p], seen[p] = r.WasDue, true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
}
