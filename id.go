package dbq

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// ids makes UUIDs of version 7: 48 bits of milliseconds, 12 bits that order the ids of one millisecond, and 62 random
// bits. The ids of one client increase strictly, so tasks that are due at the same time are handed out in the order
// in which they were enqueued.
type ids struct {
	mu   sync.Mutex
	last uint64 // milliseconds<<12 | sequence of the newest id
}

func (g *ids) next(now time.Time) uuid.UUID {
	at := uint64(now.UnixMilli())<<12 | uint64(now.Nanosecond()%1e6)>>8&0xfff
	g.mu.Lock()
	if at <= g.last {
		at = g.last + 1 // the clock stood still or went back
	}
	g.last = at
	g.mu.Unlock()

	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], at>>12<<16|0x7000|at&0xfff)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()&^(3<<62)|2<<62)
	return id
}

var newIDs ids

// NewID returns a new id for NewTask.ID. An enqueue with a given id can be repeated safely for as long as the task
// exists.
func NewID() uuid.UUID { return newIDs.next(time.Now()) }

// newClientID returns a client's name with a random part, because several clients can use one name, at the same time
// or one after another.
func newClientID(name string) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	random := make([]byte, 10) // 51 bits
	for i := range random {
		random[i] = digits[rand.IntN(len(digits))]
	}
	return name + "#" + string(random)
}
