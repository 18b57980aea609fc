package sqlrun

import (
	"fmt"
	"testing"
)

func TestDialectStateIsBounded(t *testing.T) {
	t.Parallel()
	var s Session
	first := s.LoadOrStore("first", new(int))
	if s.LoadOrStore("first", new(int)) != first {
		t.Error("what was kept is gone at once")
	}
	for i := range 3 * maxStateSize {
		s.LoadOrStore(fmt.Sprint(i), i)
	}
	n := 0
	s.dialectState.Range(func(any, any) bool { n++; return true })
	if n > maxStateSize {
		t.Errorf("%d things are kept, want at most %d", n, maxStateSize)
	}
}
