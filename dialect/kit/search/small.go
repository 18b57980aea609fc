package search

import (
	"sync/atomic"

	"github.com/dbq-go/dbq/dialect"
)

// Small records whether the payloads of this client's last checkout of a queue were small: each within the budget's
// share. If so, a dialect can use a cheaper search, but must still respect the budget.
type Small struct{ last atomic.Bool }

// SmallOf returns the Small of a queue. It is false at first.
func SmallOf(s *dialect.Session, queue string) *Small {
	return s.LoadOrStore("small "+queue, &Small{}).(*Small)
}

// Were reports whether the payloads of the last checkout that found some tasks were small. It is false after one that
// found none.
func (s *Small) Were() bool { return s.last.Load() }

// Found records how many tasks a checkout found, and whether each payload was within share.
func (s *Small) Found(rows []dialect.Row, share int64) {
	small := len(rows) > 0
	for i := range rows {
		small = small && rows[i].PayloadBytes() <= share
	}
	if s.last.Load() != small {
		s.last.Store(small)
	}
}
