package worker

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// goroutineID returns the current goroutine's number, as in stacks.
func goroutineID() int {
	buf := make([]byte, 64)
	id, _ := parseID(buf[:runtime.Stack(buf, false)])
	return id
}

// parseID reads the number from "goroutine 12 [running]:".
func parseID(stack []byte) (int, bool) {
	fields := bytes.Fields(stack[:min(len(stack), 64)])
	if len(fields) < 2 {
		return 0, false
	}
	id, err := strconv.Atoi(string(fields[1]))
	return id, err == nil
}

const (
	// maxStacks limits the text of all goroutines' stacks, in bytes.
	maxStacks = 16 << 20
	// stacksPause is the pause after reading the stacks, as a multiple of the duration of the reading. Reading stops all
	// goroutines, for some tenths of a second if there are a thousand.
	stacksPause = 10
)

// stacks has the stacks of handlers that ignore the end of their context. Many handlers can become stuck at once, so
// one reading serves all that were running then. It is not safe for concurrent use.
type stacks struct {
	next  time.Time // the earliest time of the next reading
	texts map[callKey]string
}

// callKey identifies an invocation without keeping it in memory.
type callKey struct {
	goroutine int
	start     time.Time
}

func (inv *invocation) key() callKey { return callKey{inv.goroutine, inv.start} }

// read reads the stacks of stuck and running handlers, unless the last reading has them.
func (s *stacks) read(running, stuck []*invocation) {
	known := true
	for _, inv := range stuck {
		_, ok := s.texts[inv.key()]
		known = known && ok
	}
	begin := time.Now()
	if known || begin.Before(s.next) {
		return
	}
	all := allStacks()
	s.texts = make(map[callKey]string, len(running)+len(stuck))
	for _, inv := range slices.Concat(running, stuck) {
		if text, ok := all[inv.goroutine]; ok {
			s.texts[inv.key()] = string(text)
		}
	}
	s.next = time.Now().Add(stacksPause * time.Since(begin))
}

// of returns the stack of a stuck handler at the last reading. It can be called once for each handler.
func (s *stacks) of(inv *invocation) string {
	text, ok := s.texts[inv.key()]
	delete(s.texts, inv.key())
	if !ok {
		return "not read: other stacks were read a moment ago"
	}
	return text
}

// allStacks returns the stacks of all goroutines by number.
func allStacks() map[int][]byte {
	for size := 256 << 10; ; size *= 4 {
		buf := make([]byte, size)
		n := runtime.Stack(buf, true)
		if n == size && size < maxStacks {
			continue
		}
		out := map[int][]byte{}
		for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
			if id, ok := parseID(stack); ok {
				out[id] = stack
			}
		}
		return out
	}
}
