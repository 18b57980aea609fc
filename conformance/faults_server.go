package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// answerLostThenTakenOver loses the answer to a call that makes its task due at once, and lets another worker take the task
// before the call can look what became of it.
func answerLostThenTakenOver(t *T) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	calls := []faultCall{
		{name: "Release", call: func(ctx context.Context, q *dbq.Queue, s *subject) error {
			return q.Release(ctx, s.tasks[0].Lease, 0)
		}},
		{name: "Fail", call: func(ctx context.Context, q *dbq.Queue, s *subject) error {
			return q.Fail(ctx, s.tasks[0].Lease, dbq.RetryIn(0), errors.New("it failed"))
		}},
	}
	seen := false
	for _, f := range calls {
		for k := 1; k <= maxRequests; k++ {
			c := t.oneConnection(dsn)
			s := &subject{queue: fmt.Sprintf("fault %d", subjects.Add(1))}
			prepareHeld(1)(t, direct.Queue(s.queue), s)
			ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
			p.set(rule{atAsk: k, answer: true, stay: true})
			var call sync.WaitGroup
			call.Add(1)
			go func() {
				defer call.Done()
				s.err = f.call(ctx, c.Queue(s.queue), s)
			}()
			var taken []dbq.Task
			for end := time.Now().Add(200 * time.Millisecond); len(taken) == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				taken = t.checkout(direct.Queue(s.queue), 1, long)
			}
			fired := p.heal()
			call.Wait()
			cancel()
			c.Close()
			if !fired {
				break
			}
			if len(taken) == 0 {
				continue // this request was not the one that does it
			}
			seen = true
			if s.err != nil && !errors.Is(s.err, dbq.ErrMayHaveHappened) {
				t.Errorf("%s: it was done, and the task is taken again; it answered %v", f.name, s.err)
			}
			if is := t.get(direct, taken[0].ID); is.State != state.Processing || is.Fence != taken[0].Fence {
				t.Errorf("%s: the new holder has lost the task: it is %v under fence %d, want fence %d", f.name, is.State, is.Fence, taken[0].Fence)
			}
		}
	}
	if !seen {
		t.Errorf("no request was found that did the work")
	}
}

// grace is what a call may take beyond its deadline: dbq lets a write that was sent finish within 2 seconds.
const grace = 3 * time.Second

func stalledServer(t *T) {
	direct := t.Open()
	type trial struct {
		f faultCall
		r rule
		s *subject
	}
	var trials []*trial
	for _, f := range faultCalls() {
		trials = append(trials, &trial{f: f, r: rule{atAsk: 1, stalled: true}}, &trial{f: f, r: rule{atAsk: 1, stalled: true, answer: true}})
	}
	for _, f := range []faultCall{faultCallNamed("Settle"), manyChunks(direct)} { // these have a commit
		trials = append(trials, &trial{f: f, r: rule{atText: commitText, stalled: true, answer: true}})
	}
	var proxies []*proxy
	var clients []*dbq.Client
	for range trials {
		p, dsn := t.throughProxy()
		proxies, clients = append(proxies, p), append(clients, t.oneConnection(dsn))
	}
	// Side by side, since each takes its whole deadline.
	const deadline = 500 * time.Millisecond
	took := make([]time.Duration, len(trials))
	for i, tr := range trials {
		tr.s = t.disturb(direct, clients[i], tr.f, undisturbed, func() {}) // makes the connection
	}
	t.together(len(trials), func(_ context.Context, i int) {
		tr := trials[i]
		var start time.Time
		tr.s = t.disturb(direct, clients[i], tr.f, func(ctx context.Context) (context.Context, func()) {
			proxies[i].set(tr.r)
			start = time.Now()
			ctx, cancel := context.WithTimeout(ctx, deadline)
			return ctx, func() { took[i] = time.Since(start); cancel() }
		}, func() { proxies[i].heal() })
	})
	for i, tr := range trials {
		what := fmt.Sprintf("stalled at %v", tr.r)
		if took[i] > deadline+grace {
			t.Errorf("%s, %s: it returned %v after its deadline, want at most %v: %v", tr.f.name, what, took[i]-deadline, grace, tr.s.err)
		}
		if tr.s.err != nil && !ctxEnded(tr.s.err) {
			t.Errorf("%s, %s: got error %v, want one that says that the deadline is over", tr.f.name, what, tr.s.err)
		}
		proxies[i].Close() // what was held has arrived, or never will
		t.judgeCall(what, direct, tr.f, tr.s)
	}
}

// bound is the time within which a call gives up on a server that refuses connections.
const bound = 10 * time.Second

func serverGone(t *T) {
	p, dsn := t.throughProxy()
	direct, c := t.Open(), t.OpenDSN(dsn)
	p.leave()
	timed := func(what string, call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.ctx, bound)
		defer cancel()
		err := call(ctx)
		t.WantErr(what+" without a server", err, dbq.ErrUnavailable)
		if errors.Is(err, dbq.ErrMayHaveHappened) {
			t.Errorf("%s without a server: got error %v, though nothing can have happened", what, err)
		}
		if ctx.Err() != nil {
			t.Errorf("%s without a server took more than %v", what, bound)
		}
	}
	// Questions first: they use up the connections that the client still has and does not know to be cut.
	timed("Get", func(ctx context.Context) error { _, err := c.Get(ctx, dbq.NewID()); return err })
	timed("Stats", func(ctx context.Context) error { _, err := c.Stats(ctx); return err })
	timed("Open", func(ctx context.Context) error {
		other, err := dbq.Open(ctx, dsn, t.options()...)
		if err == nil {
			other.Close()
		}
		return err
	})
	for _, f := range faultCalls() {
		timed(f.name, func(ctx context.Context) error {
			s := t.disturb(direct, c, f, func(context.Context) (context.Context, func()) { return ctx, func() {} }, func() {})
			if t.judgeCall("server gone", direct, f, s) {
				t.Errorf("%s was done without a server", f.name)
			}
			return s.err
		})
	}
}

func serverBackAgain(t *T) {
	p, dsn := t.throughProxy()
	direct, c := t.Open(), t.OpenDSN(dsn)
	never := func(faultCall, error) bool { return false }
	unsureEnqueue := func(f faultCall, err error) bool {
		return strings.HasPrefix(f.name, "Enqueue") && errors.Is(err, dbq.ErrMayHaveHappened)
	}
	all := func(what string, unsure func(faultCall, error) bool) {
		for _, f := range faultCalls() {
			s := t.disturb(direct, c, f, undisturbed, func() {})
			switch t.judgeCall(what, direct, f, s); {
			case s.err != nil && !unsure(f, s.err):
				t.Errorf("%s, %s: %v", f.name, what, s.err)
			case s.err != nil:
				t.repeatEnqueue(what, direct, f, s)
			}
		}
	}
	all("before", never)
	p.cut()
	// A connection that is gone may look as if it were there until a request on it has been sent: an enqueue is not made again then.
	all("after a cut, with a server that is there", unsureEnqueue)
	p.leave()
	ctx, cancel := context.WithTimeout(t.ctx, bound)
	defer cancel()
	_, err := c.Queue("back").Enqueue(ctx, dbq.NewTask{})
	if err == nil {
		t.Errorf("an enqueue without a server succeeded")
	}
	p.heal()
	all("after the server came back", unsureEnqueue)
}

func poolOfOne(t *T) {
	direct, c := t.Open(), t.Open()
	c.DB().SetMaxOpenConns(1)
	for _, f := range append(faultCalls(), manyChunks(c)) {
		s := t.disturb(direct, c, f, func(ctx context.Context) (context.Context, func()) {
			return context.WithTimeout(ctx, bound)
		}, func() {})
		if t.judgeCall("on a pool of one", direct, f, s); s.err != nil {
			t.Errorf("%s on a pool of one: %v", f.name, s.err)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, bound)
	defer cancel()
	q := c.Queue("pool of one")
	id, err := q.Enqueue(ctx, dbq.NewTask{Reference: "one"})
	t.Must(err)
	_, err = c.Get(ctx, id)
	t.Must(err)
	_, err = q.Find(ctx, "one")
	t.Must(err)
	_, err = c.Stats(ctx)
	t.Must(err)
	n, err := c.RejectMany(ctx, dbq.Filter{Queue: q.Name(), Limit: 10})
	t.Must(err)
	if n != 1 {
		t.Errorf("RejectMany changed %d tasks, want 1", n)
	}
	_, err = c.Wait(ctx, id)
	t.Must(err)
	t.Must(c.Purge(ctx, id))
	_, err = c.List(ctx, dbq.Filter{})
	t.Must(err)
	_, err = c.Now(ctx)
	t.Must(err)
}
