package dbq

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

func less(a, b uuid.UUID) bool { return bytes.Compare(a[:], b[:]) < 0 }

func TestIDsAreUUIDsOfVersion7WithTheirTime(t *testing.T) {
	t.Parallel()
	var g ids
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_999_999, time.UTC)
	id := g.next(at)
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		t.Errorf("%v is of version %d, variant %v", id, id.Version(), id.Variant())
	}
	if err := bounds.ID(id); err != nil {
		t.Error(err)
	}
	sec, nsec := id.Time().UnixTime()
	if got := time.Unix(sec, nsec).UTC(); !got.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("%v says %v, want %v", id, got, at)
	}
	if err := bounds.ID(NewID()); err != nil {
		t.Error(err)
	}
}

func TestIDsGrowWhateverTheClockDoes(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, clock := range map[string]func(i int) time.Time{
		"stands still":            func(int) time.Time { return start },
		"goes on":                 func(i int) time.Time { return start.Add(time.Duration(i) * 37 * time.Microsecond) },
		"goes back":               func(i int) time.Time { return start.Add(-time.Duration(i) * time.Second) },
		"is set back and forth":   func(i int) time.Time { return start.Add(time.Duration(i%3-1) * time.Hour) },
		"moves by a nanosecond":   func(i int) time.Time { return start.Add(time.Duration(i)) },
		"crosses the millisecond": func(i int) time.Time { return start.Add(999_999 + time.Duration(i)/7) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g ids
			last := g.next(clock(0))
			for i := 1; i < 10_000; i++ { // more than the 4096 of one millisecond
				id := g.next(clock(i))
				if !less(last, id) {
					t.Fatalf("id %d: %v does not come after %v", i, id, last)
				}
				check.OK(t, bounds.ID(id))
				last = id
			}
		})
	}
}

func TestIDsOfManyGoroutinesAreDifferentAndGrow(t *testing.T) {
	t.Parallel()
	var g ids
	const goroutines, each = 8, 5000
	got := make([][]uuid.UUID, goroutines)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			for range each {
				got[i] = append(got[i], g.next(time.Now()))
			}
		})
	}
	wg.Wait()
	seen := map[uuid.UUID]bool{}
	for i, some := range got {
		if !slices.IsSortedFunc(some, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
			t.Errorf("goroutine %d saw ids that do not grow", i)
		}
		for _, id := range some {
			seen[id] = true
		}
	}
	if len(seen) != goroutines*each {
		t.Errorf("got %d different ids, want %d", len(seen), goroutines*each)
	}
}

func TestCheckIDRefusesOtherUUIDs(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]uuid.UUID{
		"zero":            uuid.Nil,
		"all ones":        uuid.Max,
		"random":          uuid.New(),
		"another variant": {6: 0x70, 8: 0xC0},
	} {
		if err := bounds.ID(id); err == nil {
			t.Errorf("%s: %v was taken", name, id)
		}
	}
}
