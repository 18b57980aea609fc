package bridge

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	slowAfter = time.Second // how long a message may take to arrive before it makes room for others
	roomWait  = time.Second // how long a message waits for that room
)

// arrivals are the messages whose bodies are being read, oldest first. A Receiver cannot know whether a message is
// signed before it has the body, so senders that are slow could keep all others out. It is safe for concurrent use.
type arrivals struct {
	mu  sync.Mutex
	all []*arrival
}

type arrival struct {
	control *http.ResponseController
	since   time.Time
}

// add adds a message until done is called.
func (as *arrivals) add(w http.ResponseWriter) (done func()) {
	a := &arrival{http.NewResponseController(w), time.Now()}
	as.mu.Lock()
	defer as.mu.Unlock()
	as.all = append(as.all, a)
	return func() {
		as.mu.Lock()
		defer as.mu.Unlock()
		as.all = slices.DeleteFunc(as.all, func(other *arrival) bool { return other == a })
	}
}

// endOldest ends the reading of the oldest message if it is slow, and reports whether it did.
func (as *arrivals) endOldest() bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	if len(as.all) == 0 || time.Since(as.all[0].since) < slowAfter {
		return false
	}
	err := as.all[0].control.SetReadDeadline(time.Now()) // not every server has deadlines
	as.all = as.all[1:]
	return err == nil
}
