package store

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Ids are UUIDs that begin with the milliseconds of their time, so their order is that of time.

// firstID returns the lowest id of a time.
func firstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(max(0, t.UnixMilli()))<<16)
	return id
}

// TimeOf returns the time of an id.
func TimeOf(id uuid.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:]) >> 16))
}

// nextID returns the lowest id above id.
func nextID(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// prevID returns the highest id below id.
func prevID(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			break
		}
	}
	return id
}
