package prom

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// Other is the label of the queues and kinds beyond the limits on their number.
const Other = "other"

const (
	// DefaultMaxQueues is the default of WithMaxQueues.
	DefaultMaxQueues = 200
	// DefaultMaxKinds is the default of WithMaxKinds. Each pair of queue and kind has about two dozen series.
	DefaultMaxKinds = 200
)

// Option configures New.
type Option func(*Metrics) error

// WithMaxQueues limits the number of queues with their own series in this process. The first n queues have their own;
// the others are counted under the label Other. The default is DefaultMaxQueues; n must be at least 1.
func WithMaxQueues(n int) Option {
	return func(m *Metrics) (err error) { m.queues, err = newBounded("queues", n); return err }
}

// WithMaxKinds limits the number of pairs of queue and kind with their own series in this process. The other kinds
// are counted under the label Other of their queue. The default is DefaultMaxKinds; n must be at least 1.
func WithMaxKinds(n int) Option {
	return func(m *Metrics) (err error) { m.kinds, err = newBounded("kinds", n); return err }
}

// bounded is a set of names with a maximum size, because names come from tasks and callers and must not fill the
// memory.
type bounded struct {
	mu   sync.RWMutex
	most int
	seen map[[2]string]bool
}

func newBounded(what string, most int) (*bounded, error) {
	if most < 1 {
		return nil, fmt.Errorf("prom: at most %d %s: use at least 1", most, what)
	}
	return &bounded{most: most, seen: map[[2]string]bool{}}, nil
}

// has reports whether a name is in the set, after adding it if there is room.
func (b *bounded) has(name [2]string) bool {
	b.mu.RLock()
	is := b.seen[name]
	b.mu.RUnlock()
	if is {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seen[name] && len(b.seen) >= b.most {
		return false
	}
	b.seen[name] = true
	return true
}

// queueLabel returns the label of a queue, "" for a name that no queue can have.
func (m *Metrics) queueLabel(queue string) string {
	switch {
	case queue == "" || !isLabel(queue, dbq.MaxQueueName):
		return ""
	case m.queues.has([2]string{queue}):
		return queue
	}
	return Other
}

// kindLabels returns the labels of a queue and of a kind in it. A row that dbq did not write may have an invalid kind.
func (m *Metrics) kindLabels(queue, kind string) (string, string) {
	queue = m.queueLabel(queue)
	if kind == "" {
		return queue, ""
	}
	if queue == Other || !isLabel(kind, dbq.MaxKind) || !m.kinds.has([2]string{queue, kind}) {
		return queue, Other
	}
	return queue, kind
}

// isLabel reports whether a text is valid as a name in dbq. Prometheus panics on a label that is not UTF-8.
func isLabel(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most &&
		!strings.ContainsFunc(text, unicode.IsControl)
}

// groupStats adds up the statistics of queues that share a label.
func (m *Metrics) groupStats(stats []admin.QueueStats) []admin.QueueStats {
	var out []admin.QueueStats
	at := map[string]int{}
	for _, q := range stats {
		label := m.queueLabel(q.Queue)
		i, there := at[label]
		if !there {
			at[label] = len(out)
			q.Queue, q.Count = label, maps.Clone(q.Count)
			out = append(out, q)
			continue
		}
		sum := &out[i]
		for state, n := range q.Count {
			sum.Count[state] += n
		}
		sum.Due, sum.Parked, sum.OldestDue = sum.Due+q.Due, sum.Parked+q.Parked, max(sum.OldestDue, q.OldestDue)
		sum.Cancelled += q.Cancelled
	}
	return out
}

// groupPauses reports for each label whether one of its queues is paused.
func (m *Metrics) groupPauses(paused map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, queue := range slices.Sorted(maps.Keys(paused)) {
		label := m.queueLabel(queue)
		out[label] = out[label] || paused[queue]
	}
	return out
}
