package wake

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

const (
	listenTimeout  = 10 * time.Second // to connect
	probeTimeout   = 3 * time.Second  // for a probe to arrive
	probeEvery     = 30 * time.Second
	minListenPause = 100 * time.Millisecond // between two attempts to connect
	maxListenPause = time.Minute
)

// A payload is a prefix, the sender's id, and the text. The text of a probe is unique; the text of a wake-up has the
// due tasks and the topic.
const (
	probePrefix = "probe "
	wakePrefix  = "wake "
)

// errProbeLost is the error of a listening connection on which probes do not arrive.
var errProbeLost = errors.New("notifications do not arrive; a pooler may drop them")

// listener receives other processes' notifications while its client has waiters.
type listener struct {
	conn
	receiving atomic.Bool // a probe has arrived on this connection

	mu      sync.Mutex
	waiters int
	closed  bool
	stop    context.CancelFunc
	done    chan struct{}

	warned bool // whether it has logged that none arrive; used only by the goroutine
}

// acquire starts listening, for the first waiter.
func (l *listener) acquire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters++; l.waiters > 1 || l.closed {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.done = stop, make(chan struct{})
	go func() {
		defer close(l.done)
		l.run(ctx)
	}()
}

// release stops listening, after the last waiter.
func (l *listener) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters--; l.waiters == 0 {
		l.end()
	}
}

// close stops listening for good.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.end()
}

// end stops listening and waits until it has stopped. The caller holds mu.
func (l *listener) end() {
	if l.stop != nil {
		l.stop()
		<-l.done
		l.stop = nil
	}
}

// run connects repeatedly, after pauses that grow while listening fails.
func (l *listener) run(ctx context.Context) {
	for pause := minListenPause; ; pause = min(pause*2, maxListenPause) {
		received, err := l.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if received {
			pause = minListenPause
		}
		if !l.warned { // once, not each time
			l.warned = true
			l.log.Warn("dbq: notifications do not arrive; workers poll; trying again", "error", l.scrub(err))
		}
		if errors.Is(err, errProbeLost) || errors.Is(err, errors.ErrUnsupported) {
			pause = maxListenPause // it is unlikely to change
		}
		if store.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// listenOnce listens on one connection while probes arrive on it. received reports whether any did.
func (l *listener) listenOnce(ctx context.Context) (received bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, lost := make(chan struct{}), make(chan error, 1)
	p := probe{id: uuid.NewString(), received: make(chan string, 8)}
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	defer l.receiving.Store(false)
	listening.Go(func() {
		lost <- l.Listen(ctx, sync.OnceFunc(func() { close(ready) }), func(payload string) { l.receive(payload, p) })
	})
	select {
	case <-ready:
	case err := <-lost:
		return false, err
	case <-time.After(listenTimeout):
		return false, context.DeadlineExceeded
	}
	for {
		if err := l.probe(ctx, p, lost); err != nil {
			return received, err
		}
		if !received {
			received = true
			l.receiving.Store(true)
			if l.warned {
				l.warned = false
				l.log.Info("dbq: notifications arrive again")
			}
			l.hub.resync()
		}
		select {
		case err := <-lost:
			return received, err
		case <-time.After(probeEvery):
		}
	}
}

// A probe is a notification that a listening connection recognizes as its own client's.
type probe struct {
	id       string
	received chan string
}

// probe sends a notification through the pool and waits for it, because LISTEN has no effect behind a pooler that
// gives each transaction another session.
func (l *listener) probe(ctx context.Context, p probe, lost <-chan error) error {
	text := p.id + " " + uuid.NewString()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := l.Notify(ctx, probePrefix+text); err != nil {
		return err
	}
	for {
		select {
		case got := <-p.received:
			if got == text {
				return nil
			}
		case err := <-lost:
			return err
		case <-ctx.Done():
			return errProbeLost
		}
	}
}

// receive handles a notification.
func (l *listener) receive(payload string, p probe) {
	if text, is := strings.CutPrefix(payload, probePrefix); is && strings.HasPrefix(text, p.id) {
		select {
		case p.received <- text:
		default: // from an earlier probe that timed out
		}
		return
	}
	if rest, is := strings.CutPrefix(payload, wakePrefix); is {
		from, rest, _ := strings.Cut(rest, " ")
		message, topic, is := strings.Cut(rest, " ")
		if is && from != l.hub.id { // clients of the same hub have already woken its waiters
			l.hub.receive(topic, message)
		}
	}
}
