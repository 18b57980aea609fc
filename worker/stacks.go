package worker

import (
	"bytes"
	"runtime"
	"strconv"
	"time"
)

// goroutineID is the number that stacks show.
func goroutineID() int {
	buf := make([]byte, 64)
	id, _ := parseID(buf[:runtime.Stack(buf, false)])
	return id
}

// parseID reads the number out of "goroutine 12 [running]:".
func parseID(stack []byte) (int, bool) {
	fields := bytes.Fields(stack[:min(len(stack), 64)])
	if len(fields) < 2 {
		return 0, false
	}
	id, err := strconv.Atoi(string(fields[1]))
	return id, err == nil
}

const (
	// maxStacks bounds the text of all goroutines' stacks that is looked through.
	maxStacks = 16 << 20
	// stacksShare is for how many times as long as it took the stacks are not read again: all goroutines stand still meanwhile, for
	// some tenths of a second when there are a thousand.
	stacksShare = 10
)

// stacks are where handlers are, for those that ignore the end of their context. One reading does for all that were running then, since
// many can become stuck at once. It is not safe for concurrent use.
type stacks struct {
	next  time.Time // not before
	texts map[callKey]string
}

// callKey is for a flight, and keeps nothing of it.
type callKey struct {
	goroutine int
	start     time.Time
}

func (f *flight) key() callKey { return callKey{f.slot.goroutine, f.start} }

// read reads the stacks of the handlers that are stuck and of those that are running, unless the last reading has them.
func (s *stacks) read(running, stuck []*flight) {
	known := true
	for _, f := range stuck {
		_, ok := s.texts[f.key()]
		known = known && ok
	}
	begin := time.Now()
	if known || begin.Before(s.next) {
		return
	}
	all := allStacks()
	s.texts = make(map[callKey]string, len(running)+len(stuck))
	for _, flights := range [][]*flight{running, stuck} {
		for _, f := range flights {
			if text, ok := all[f.slot.goroutine]; ok {
				s.texts[f.key()] = string(text)
			}
		}
	}
	s.next = time.Now().Add(stacksShare * time.Since(begin))
}

// of is where a handler that is stuck was at the last reading. It is asked once.
func (s *stacks) of(f *flight) string {
	text, ok := s.texts[f.key()]
	delete(s.texts, f.key())
	if !ok {
		return "not read, as others were a moment ago"
	}
	return text
}

// allStacks are the stacks of all goroutines, by their numbers.
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
