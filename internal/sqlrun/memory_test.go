package sqlrun

import (
	"fmt"
	"testing"
)

func TestSessionMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var s Session
	first := s.LoadOrStore("first", new(int))
	if s.LoadOrStore("first", new(int)) != first {
		t.Error("what was remembered is gone at once")
	}
	for i := range 3 * memoryMost {
		s.LoadOrStore(fmt.Sprint(i), i)
	}
	n := 0
	s.memory.Range(func(any, any) bool { n++; return true })
	if n > memoryMost {
		t.Errorf("%d things are remembered, want at most %d", n, memoryMost)
	}
}
