package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// hanging starts a handler that hangs until the end of the test.
func hanging(t *testing.T) *invocation {
	t.Helper()
	end, id := make(chan struct{}), make(chan int)
	t.Cleanup(func() { close(end) })
	go func() {
		id <- goroutineID()
		<-end
	}()
	return &invocation{goroutine: <-id}
}

// All goroutines stand still while stacks are read: of many handlers that become stuck at once, it is done for one of
// them.
func TestStacksAreReadOnceForManyHandlers(t *testing.T) {
	t.Parallel()
	var s stacks
	first, second, later := hanging(t), hanging(t), hanging(t)
	shown := func(inv *invocation, want bool) {
		t.Helper()
		if got := s.of(inv); strings.HasPrefix(got, fmt.Sprintf("goroutine %d ", inv.goroutine)) != want {
			t.Errorf("the stack is shown: %v, want %v: %s", !want, want, got)
		}
	}
	s.read([]*invocation{second}, []*invocation{first})
	shown(first, true)
	s.next = time.Now().Add(time.Hour) // whatever the machine does
	s.read(nil, []*invocation{second})
	shown(second, true)
	s.read(nil, []*invocation{later})
	shown(later, false)
	s.next = time.Now().Add(-time.Second)
	s.read(nil, []*invocation{later})
	shown(later, true)
}
