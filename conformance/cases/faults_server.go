package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// answerLostThenTakenOver loses the answer to a call that makes its task due at once, and lets another worker take the
// task before the call can check its outcome.
func answerLostThenTakenOver(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	calls := []faultCall{
		{name: "Release", call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
			return q.Settle(ctx, s.tasks[0].Lease, dbq.Released(0))
		}},
		{name: "Fail", call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
			return q.Settle(ctx, s.tasks[0].Lease, dbq.RetryIn(0, errors.New("it failed")))
		}},
	}
	seen := false
	for _, f := range calls {
		for k := 1; k <= maxRequests; k++ {
			c := t.oneConnection(dsn)
			s := &faultRun{queue: fmt.Sprintf("fault %d", subjects.Add(1))}
			prepareLeased(1)(t, direct.Queue(s.queue), s)
			var taken []dbq.Task
			r := proxy.Rule{AtRequest: k, LoseAnswer: true, StayDown: true}
			if !t.callUnder(p, r, c, func(ctx context.Context) { s.err = f.call(ctx, c.Queue(s.queue), s) },
				func(<-chan struct{}) {
					end := time.Now().Add(200 * time.Millisecond)
					for len(taken) == 0 && time.Now().Before(end) {
						taken = t.checkout(direct.Queue(s.queue), 1, long)
						time.Sleep(5 * time.Millisecond)
					}
				}) {
				break // the call has fewer requests
			}
			if len(taken) == 0 {
				continue // this request was not the one that does it
			}
			seen = true
			if s.err != nil && !errors.Is(s.err, dbq.ErrMayHaveHappened) {
				t.Errorf("%s: it was done, and the task is taken again; it answered %v", f.name, s.err)
			}
			if is := t.get(direct, taken[0].ID); is.State != state.Processing || is.Fence != taken[0].Fence {
				t.Errorf("%s: the new holder has lost the task: it is %v under fence %d, want fence %d", f.name, is.State,
					is.Fence, taken[0].Fence)
			}
		}
	}
	if !seen {
		t.Errorf("no request was found that did the work")
	}
}

// grace is how long a call may take beyond its deadline: dbq lets a write that was sent finish within 2 seconds.
const grace = 3 * time.Second

func stalledServer(t *test) {
	direct := t.open()
	type trial struct {
		f faultCall
		r proxy.Rule
		s *faultRun
	}
	var trials []*trial
	for _, f := range faultCalls() {
		trials = append(trials, &trial{f: f, r: proxy.Rule{AtRequest: 1, Stall: true}},
			&trial{f: f, r: proxy.Rule{AtRequest: 1, Stall: true, LoseAnswer: true}})
	}
	for _, f := range []faultCall{faultCallNamed("Settle"), manyChunks(direct)} { // these have a commit
		trials = append(trials, &trial{f: f, r: proxy.Rule{AtText: commitText, Stall: true, LoseAnswer: true}})
	}
	var proxies []*proxy.Proxy
	var clients []*dbq.Client
	for range trials {
		p, dsn := t.throughProxy()
		proxies, clients = append(proxies, p), append(clients, t.oneConnection(dsn))
	}
	// Side by side, since each takes its whole deadline.
	const deadline = 500 * time.Millisecond
	took := make([]time.Duration, len(trials))
	for i, tr := range trials {
		tr.s = t.callDisturbed(direct, clients[i], tr.f, undisturbed, func() {}) // makes the connection
	}
	t.concurrently(len(trials), func(_ context.Context, i int) {
		tr := trials[i]
		var start time.Time
		tr.s = t.callDisturbed(direct, clients[i], tr.f, func(ctx context.Context) (context.Context, func()) {
			proxies[i].Set(tr.r)
			start = time.Now()
			ctx, cancel := context.WithTimeout(ctx, deadline)
			return ctx, func() { took[i] = time.Since(start); cancel() }
		}, func() { proxies[i].Heal() })
	})
	for i, tr := range trials {
		what := fmt.Sprintf("stalled at %v", tr.r)
		if took[i] > deadline+grace {
			t.Errorf("%s, %s: it returned %v after its deadline, want at most %v: %v", tr.f.name, what, took[i]-deadline, grace,
				tr.s.err)
		}
		if tr.s.err != nil && !ctxEnded(tr.s.err) {
			t.Errorf("%s, %s: got error %v, want one that says that the deadline is over", tr.f.name, what, tr.s.err)
		}
		proxies[i].Close() // what was held has arrived, or never will
		t.checkCall(what, direct, tr.f, tr.s)
		t.checkAfter(direct, tr.f, tr.s)
	}
}

// bound is the time within which a call gives up on a server that refuses connections.
const bound = 10 * time.Second

func serverGone(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	p.GoDown()
	timed := func(what string, call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.ctx, bound)
		defer cancel()
		err := call(ctx)
		t.wantErr(what+" without a server", err, dbq.ErrUnavailable)
		if errors.Is(err, dbq.ErrMayHaveHappened) {
			t.Errorf("%s without a server: got error %v, though nothing can have happened", what, err)
		}
		if ctx.Err() != nil {
			t.Errorf("%s without a server took more than %v", what, bound)
		}
	}
	// Questions first: they use up the connections that the client still has and does not know to be cut.
	timed("Get", func(ctx context.Context) error { _, err := c.Get(ctx, dbq.NewID()); return err })
	timed("Stats", func(ctx context.Context) error { _, err := admin.New(c).Stats(ctx); return err })
	timed("Open", func(ctx context.Context) error {
		other, err := dbq.Open(ctx, dsn, t.options()...)
		if err == nil {
			other.Close()
		}
		return err
	})
	for _, f := range faultCalls() {
		timed(f.name, func(ctx context.Context) error {
			s := t.callDisturbed(direct, c, f, func(context.Context) (context.Context, func()) { return ctx, func() {} },
				func() {})
			if t.checkCall("server gone", direct, f, s) {
				t.Errorf("%s was done without a server", f.name)
			}
			return s.err
		})
	}
}

func serverBackAgain(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	never := func(faultCall, error) bool { return false }
	unsureOnce := func(f faultCall, err error) bool { return f.once && errors.Is(err, dbq.ErrMayHaveHappened) }
	all := func(what string, unsure func(faultCall, error) bool) {
		for _, f := range faultCalls() {
			s := t.callDisturbed(direct, c, f, undisturbed, func() {})
			switch t.checkCall(what, direct, f, s); {
			case s.err != nil && !unsure(f, s.err):
				t.Errorf("%s, %s: %v", f.name, what, s.err)
			case s.err != nil && f.after != nil:
				f.after(t, direct, s)
			case s.err != nil:
				t.repeatEnqueue(what, direct, f, s)
			}
		}
	}
	all("before", never)
	p.CutAll()
	// A connection that is gone may look as if it were there until a request on it has been sent: an enqueue or a checkout
	// is not made again then.
	all("after a cut, with a server that is there", unsureOnce)
	p.GoDown()
	ctx, cancel := context.WithTimeout(t.ctx, bound)
	defer cancel()
	_, err := c.Queue("back").Enqueue(ctx, dbq.NewTask{})
	if err == nil {
		t.Errorf("an enqueue without a server succeeded")
	}
	p.Heal()
	all("after the server came back", unsureOnce)
}

// repeatEnqueue repeats an enqueue that may have happened, as the documentation recommends, through an undisturbed
// client: then each task must be there once.
func (t *test) repeatEnqueue(what string, direct *dbq.Client, f faultCall, s *faultRun) {
	q, want := direct.Queue(s.queue), 1
	var err error
	if f.name == "Enqueue" {
		var e *dbq.Error
		if !errors.As(s.err, &e) || e.Task == uuid.Nil {
			t.Errorf("%s, %s: the error does not have the id to repeat it with: %v", f.name, what, s.err)
			return
		}
		if _, err = q.Enqueue(t.ctx, dbq.NewTask{ID: e.Task, Payload: []byte("payload")}); errors.Is(err, dbq.ErrDuplicate) {
			err = nil
		}
	} else {
		want = 4
		_, err = q.EnqueueMany(t.ctx, severalTasks(s))
	}
	if n := t.count(direct, s.queue); err != nil || n != want {
		t.Errorf("%s, %s: repeated, it made %d tasks with error %v, want %d", f.name, what, n, err, want)
	}
}

func poolOfOne(t *test) {
	direct, c := t.open(), t.open()
	c.DB().SetMaxOpenConns(1)
	for _, f := range append(faultCalls(), manyChunks(c)) {
		s := t.callDisturbed(direct, c, f, func(ctx context.Context) (context.Context, func()) {
			return context.WithTimeout(ctx, bound)
		}, func() {})
		if t.checkCall("on a pool of one", direct, f, s); s.err != nil {
			t.Errorf("%s on a pool of one: %v", f.name, s.err)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, bound)
	defer cancel()
	q := c.Queue("pool of one")
	id, err := q.Enqueue(ctx, dbq.NewTask{Reference: "one"})
	t.must(err)
	_, err = c.Get(ctx, id)
	t.must(err)
	_, err = q.Find(ctx, "one")
	t.must(err)
	_, err = admin.New(c).Stats(ctx)
	t.must(err)
	done, err := admin.New(c).OperateMany(ctx, admin.Reject, admin.Filter{Queue: q.Name(), Limit: 10})
	t.must(err)
	if done.Changed != 1 {
		t.Errorf("OperateMany changed %d tasks, want 1", done.Changed)
	}
	_, err = c.Wait(ctx, id)
	t.must(err)
	t.must(admin.New(c).Operate(ctx, admin.Purge, id))
	_, err = admin.New(c).List(ctx, admin.Filter{})
	t.must(err)
	_, err = c.Now(ctx)
	t.must(err)
}
