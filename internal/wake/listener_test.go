package wake

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// fakeDatabase passes notifications on at once, but behind a pooler none.
type fakeDatabase struct {
	pooler bool
	mu     sync.Mutex
	sent   []string
	listen func(payload string) // of the connection that listens
	cut    context.CancelFunc
}

var errCut = errors.New("the connection was cut")

func (d *fakeDatabase) Notify(_ context.Context, payload string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent = append(d.sent, payload)
	if d.listen != nil && !d.pooler {
		go d.listen(payload)
	}
	return nil
}

func (d *fakeDatabase) Listen(ctx context.Context, ready func(), received func(payload string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	d.listen, d.cut = received, cancel
	d.mu.Unlock()
	ready()
	<-ctx.Done()
	return errCut
}

// wakeups returns the payloads of the wake-ups that were sent, without their sender.
func (d *fakeDatabase) wakeups() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, payload := range d.sent {
		if strings.HasPrefix(payload, wakePrefix) {
			out = append(out, strings.SplitN(payload, " ", 3)[2])
		}
	}
	return out
}

// newConn returns a client's part, and its log.
func newConn(t *testing.T, d *fakeDatabase) (conn, *bytes.Buffer) {
	var log bytes.Buffer
	return conn{database: d, hub: newHub(t), log: slog.New(slog.NewTextHandler(&log, nil)),
		scrub: func(err error) error { return err }}, &log
}

func TestListenerReceivesAndReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDatabase{}
		c, log := newConn(t, db)
		l := &listener{conn: c}
		w := l.hub.join("q", false)
		w.listener = l
		l.acquire()
		synctest.Wait()
		if !l.receiving.Load() || len(woken([]*Waiter{w})) != 0 {
			t.Fatal("it does not listen, or wakes one that does not wait")
		}
		wakeup := <-w.Wait(1) // what came before it listened
		w.BeforeCheckout()
		if !wakeup.Uncertain {
			t.Error("what may have come before is not uncertain")
		}
		check.OK(t, db.Notify(t.Context(), wakePrefix+"other 0:1 q"))
		<-w.Wait(1)
		w.BeforeCheckout()
		check.OK(t, db.Notify(t.Context(), wakePrefix+l.hub.id+" 0:1 q"))
		select {
		case <-w.Wait(1):
			t.Error("woken by its own hub's notification")
		case <-time.After(time.Second):
		}
		time.Sleep(3 * probeEvery)
		db.cut()
		synctest.Wait()
		if l.receiving.Load() {
			t.Error("it listens on a connection that was cut")
		}
		<-w.Wait(1) // for what may have been missed
		if !l.receiving.Load() || strings.Count(log.String(), "do not arrive") != 1 ||
			!strings.Contains(log.String(), "arrive again") {
			t.Errorf("it did not reconnect; it logged %s", log)
		}
		w.Close()
		if l.receiving.Load() || l.stop != nil {
			t.Error("it listens without a waiter")
		}
	})
}

func TestListenerDoesNotRelyOnAConnectionWithoutProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newConn(t, &fakeDatabase{pooler: true})
		l := &listener{conn: c}
		l.acquire()
		for range 200 {
			if time.Sleep(time.Second); l.receiving.Load() {
				t.Fatal("no probe arrived, and it relies on notifications")
			}
		}
		l.close()
		l.release()
		l.acquire()
		if l.stop != nil {
			t.Error("it listens after its end")
		}
		if n := strings.Count(log.String(), "workers poll"); n != 1 {
			t.Errorf("it logged %d times that workers poll, want once", n)
		}
	})
}

func TestNotifierCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDatabase{}
		c, _ := newConn(t, db)
		n := &notifier{conn: c}
		due := func(tasks int, after time.Duration) Due {
			d := Due{now: tasks}
			d.Add(after)
			d.startAt(n.hub)
			return d
		}
		n.add("q", due(1, time.Hour))
		synctest.Wait()
		for range 5 {
			n.add("q", due(2, time.Second))
		}
		n.add("other", Due{now: 1})
		n.close()
		n.add("q", Due{now: 1}) // after the end
		got := db.wakeups()
		if len(got) != 3 || got[0] != "0:1,3600000:1 q" {
			t.Errorf("sent %q", got)
		}
		const rest = "0:10,999:1,999:1,999:1,999:1,999:1 q"
		if len(got) == 3 && got[1] != rest && got[2] != rest {
			t.Errorf("sent %q, want %q", got[1:], rest)
		}
	})
}

func TestNotifierWakesAfterACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDatabase{}
		c, _ := newConn(t, db)
		n := &notifier{conn: c}
		n.add("q", Due{atCommit: true})
		time.Sleep(2 * time.Second)
		if got := len(db.wakeups()); got != len(commitTimes) {
			t.Errorf("%d notifications, want one for each of %v", got, commitTimes)
		}
		n.add("q", Due{atCommit: true})
		time.Sleep(time.Millisecond)
		n.close() // the last one is sent now
		if got := db.wakeups(); len(got) != len(commitTimes)+2 || got[len(got)-1] != "0:1? q" {
			t.Errorf("sent %q, want two more, the last of them uncertain", got)
		}
	})
}
