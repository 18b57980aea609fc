package dbq

import (
	"context"
	"errors"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// How a client listens.
const (
	listenTimeout  = 10 * time.Second // to connect
	echoTimeout    = 3 * time.Second  // for a notification to itself to arrive
	echoEvery      = 30 * time.Second // between two of these
	relistenPause  = 100 * time.Millisecond
	maxListenPause = time.Minute
)

// errDeaf is why a client does not trust a connection that listens.
var errDeaf = errors.New("notifications do not arrive (a pooler in between?)")

// ear listens for other processes' notifications while its client has bells.
type ear struct {
	mu      sync.Mutex
	bells   int
	stop    context.CancelFunc
	done    chan struct{}
	trusted atomic.Bool
	deaf    atomic.Bool // and the log says so
}

// Listening reports whether notifications of other processes reach this client's bells. It is false without bells, on an engine without
// notifications, with WithoutNotify, and behind a pooler that does not pass them on: workers find tasks of other processes by polling then.
func (c *Client) Listening() bool { return c.ear.trusted.Load() }

func (c *Client) notifies() bool {
	return c.s.Server.Notifies && c.s.Statements.Notify != "" && !c.cfg.withoutNotify
}

func (e *ear) open(c *Client) {
	l, can := c.s.Dialect.(dialect.Listener)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bells++; e.bells > 1 || !can || !c.notifies() || c.s.Server.Pooler != "" || c.closed.Load() {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.done = stop, make(chan struct{})
	go func() {
		defer close(e.done)
		e.listen(ctx, c, l)
	}()
}

func (e *ear) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bells--; e.bells == 0 {
		e.end()
	}
}

// end stops listening and waits for it. e.mu is held.
func (e *ear) end() {
	if e.stop != nil {
		e.stop()
		<-e.done
		e.stop = nil
	}
}

func (e *ear) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end()
}

// listen connects again and again, after pauses that grow while it does not work.
func (e *ear) listen(ctx context.Context, c *Client, l dialect.Listener) {
	for pause := relistenPause; ; pause = min(pause*2, maxListenPause) {
		heard, err := e.once(ctx, c, l)
		if ctx.Err() != nil {
			return
		}
		if heard {
			pause = relistenPause
		}
		if !e.deaf.Swap(true) { // once, not each time
			c.cfg.logger.Warn("dbq: notifications do not arrive, workers poll; trying again", "error", c.scrub(err))
		}
		if errors.Is(err, errDeaf) || errors.Is(err, errors.ErrUnsupported) {
			pause = maxListenPause // it will hardly change
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// once listens on one connection for as long as notifications to itself arrive there. heard tells whether any did.
func (e *ear) once(ctx context.Context, c *Client, l dialect.Listener) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, lost := make(chan struct{}), make(chan error, 1)
	m := mirror{id: uuid.NewString(), heard: make(chan string, 8)}
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	defer e.trusted.Store(false)
	listening.Go(func() {
		lost <- l.Listen(ctx, c.s, c.channel(), sync.OnceFunc(func() { close(ready) }), func(payload string) { c.hear(payload, m) })
	})
	select {
	case <-ready:
	case err := <-lost:
		return false, err
	case <-time.After(listenTimeout):
		return false, context.DeadlineExceeded
	}
	for {
		if err := c.hearItself(ctx, m, lost); err != nil {
			return heard, err
		}
		if !heard {
			heard = true
			e.trusted.Store(true)
			if e.deaf.Swap(false) {
				c.cfg.logger.Info("dbq: notifications arrive again")
			}
			c.place.ringUnknown() // for what came before
		}
		select {
		case err := <-lost:
			return heard, err
		case <-time.After(echoEvery):
		}
	}
}

// A mirror is how a connection that listens recognises what its own client sent.
type mirror struct {
	id    string
	heard chan string
}

// hearItself sends a notification through the pool and waits for it: LISTEN means nothing behind a pooler that gives each transaction
// another session.
func (c *Client) hearItself(ctx context.Context, m mirror, lost <-chan error) error {
	word := m.id + " " + uuid.NewString()
	timeout, cancel := context.WithTimeout(ctx, echoTimeout)
	defer cancel()
	if err := c.tell(timeout, echoPrefix+word); err != nil {
		return err
	}
	for {
		select {
		case w := <-m.heard:
			if w == word {
				return nil
			}
		case err := <-lost:
			return err
		case <-timeout.Done():
			return errDeaf
		}
	}
}

// A payload is a kind, then who sent it, then what it says; a ring says what is due, and in which queue.
const (
	echoPrefix = "echo "
	ringPrefix = "ring "
)

// processSeed makes a number of a place that tells nothing about its DSN.
var processSeed, processID = maphash.MakeSeed(), uuid.NewString()

// own is who rings: this process, for the clients that share their bells with c and have rung them already.
func (c *Client) own() string {
	return processID + "/" + strconv.FormatUint(maphash.Comparable(processSeed, c.place), 36)
}

// hear handles a notification.
func (c *Client) hear(payload string, m mirror) {
	if word, is := strings.CutPrefix(payload, echoPrefix); is && strings.HasPrefix(word, m.id) {
		select {
		case m.heard <- word:
		default: // left over from a test that was given up
		}
		return
	}
	if rest, is := strings.CutPrefix(payload, ringPrefix); is {
		from, rest, _ := strings.Cut(rest, " ")
		word, queue, is := strings.Cut(rest, " ")
		switch {
		case !is || from == c.own():
		case strings.HasPrefix(queue, operators), strings.HasPrefix(queue, revocations):
			c.place.ringAll(queue)
		default:
			c.place.heard(queue, toldBy(word))
		}
	}
}

// channel is where the clients of these tables notify each other.
func (c *Client) channel() string { return c.cfg.names.Table("task") }

// tell notifies, through the pool.
func (c *Client) tell(ctx context.Context, payload string) error {
	conn, err := dialect.ConnOf(c.s.Pool.Write)
	if err != nil {
		return err
	}
	_, err = c.s.Exec(ctx, conn, c.s.Statements.Notify, dialect.Args{"channel": c.channel(), "payload": payload})
	return err
}
