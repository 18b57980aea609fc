package cases

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
)

// faultCases cut, stall and cancel calls at the worst moments. Another client, which is not disturbed, checks that what
// the call reported is true.
func faultCases() []Case {
	var out []Case
	for _, f := range faultCalls() {
		once := !strings.HasPrefix(f.name, "Checkout")
		out = append(out,
			Case{Name: "CutBefore" + f.name, Once: once, run: func(t *test) { t.cutRequests(f, false) },
				Law: "When the connection is lost before a request reaches the server, " + f.name + " repeats the request, " +
					"or reports truthfully that nothing happened or that it may have happened."},
			Case{Name: "AnswerLostTo" + f.name, Once: once, run: func(t *test) { t.cutRequests(f, true) },
				Law: "When the answer to a request is lost, " + f.name + " finds out that the change was made, or reports that " +
					"it may have happened; it never makes it twice and never denies it."},
			Case{Name: "LateRequestOf" + f.name, Once: once, run: func(t *test) { t.lateRequests(f) },
				Law: "When a request reaches the server only after its connection was given up, " + f.name + " reports what is " +
					"true after its arrival, or that it may have happened."})
	}
	out = append(out, append(identityFaults(), strandedCases()...)...)
	return inGroup("Faults", append(out,
		Case{Name: "AnswerLostThenTakenOver", Once: true, run: answerLostThenTakenOver,
			Law: "A release or a retry whose answer was lost is never reported as not done when another worker has taken the " +
				"task since."},
		Case{Name: "CutAtEveryByte", Once: true, run: cutAtEveryByte,
			Law: "Wherever a connection is cut within the bytes of a request, Enqueue and Complete report what is true."},
		Case{Name: "CutInsideAnswer", run: cutInsideAnswer,
			Law: "Wherever a connection is cut within an answer, Checkout and Complete report what is true, and every leased " +
				"task is reported."},
		Case{Name: "CutDuringCommit", Once: true, run: cutDuringCommit,
			Law: "When the commit of a change of several statements or its answer is lost, either all of the change is made " +
				"or none, and the call reports which, or that it may have happened."},
		Case{Name: "CutDuringCallersTx", Once: true, run: cutDuringCallersTx,
			Law: "When the connection of a caller's transaction is lost before its commit, nothing that dbq did in it " +
				"remains."},
		Case{Name: "CutInCallersTx", Once: true, run: cutInCallersTx,
			Law: "When the connection of a caller's transaction is lost during a call, before the commit, the call reports " +
				"that the database cannot be reached, and never that its change may have happened."},
		Case{Name: "CutBeforeReplace", Once: true, run: cutBeforeReplace,
			Law: "When the connection of an enqueue that replaces a waiting task is lost before its commit, the enqueue never " +
				"claims the replacement."},
		Case{Name: "StalledServer", run: stalledServer,
			Law: "When the server stops answering, a call with a deadline returns within the deadline and a few seconds, and " +
				"reports what is true."},
		Case{Name: "CancelledWhileRunning", run: cancelMidway,
			Law: "A call whose context ends while it runs reports what is true: done, not done, or possibly done."},
		Case{Name: "ServerGone", Once: true, run: serverGone,
			Law: "When the server cannot be reached, every call reports so within a bounded time, and changes nothing."},
		Case{Name: "ServerReturns", Once: true, run: serverBackAgain,
			Law: "When the server is back, the same client works again without being reopened."},
		Case{Name: "PoolOfOne", run: poolOfOne,
			Law: "Every call works on a pool of one connection."})...)
}

// maxRequests bounds the requests of one call that are cut; a call makes fewer.
const maxRequests = 60

// cutRequests cuts each request of a call in turn: on a new connection and on one that made the call before, with the
// server back at once and with the server gone until the call has returned.
func (t *test) cutRequests(f faultCall, answer bool) {
	p, dsn := t.throughProxy()
	direct := t.open()
	cuts, through := 0, 0
	for _, warm := range []bool{false, true} {
		for _, stay := range []bool{false, true} {
			for k := 1; k <= maxRequests; k++ {
				if f.many && warm == (k%2 == 0) {
					continue
				}
				c := t.oneConnection(dsn)
				if warm {
					t.checkCall("undisturbed", direct, f, t.callDisturbed(direct, c, f, undisturbed, func() {}))
				}
				r := proxy.Rule{AtRequest: k, LoseAnswer: answer, StayDown: stay}
				fired := false
				s := t.callDisturbed(direct, c, f, arm(p, r), func() { fired = p.Heal() })
				c.Close()
				if !fired {
					break // the call has fewer requests
				}
				cuts++
				what := fmt.Sprintf("cut at %v", r)
				did := t.checkCall(what, direct, f, s)
				t.checkAfter(direct, f, s)
				if s.err == nil {
					through++
				} else if !stay && (did || !f.once || !errors.Is(s.err, dbq.ErrMayHaveHappened)) {
					t.Errorf("%s, %s: the server is there, and still: %v", f.name, what, s.err)
				}
			}
		}
	}
	if cuts == 0 {
		t.Errorf("%s made no request that could be cut", f.name)
	}
	t.Logf("%d cuts, %d calls succeeded nevertheless", cuts, through)
}

// lateRequests closes the client's connection at each request of a call in turn, and lets the request arrive shortly or
// long afterwards, as when a client disappears while its commit is under way.
func (t *test) lateRequests(f faultCall) {
	p, dsn := t.throughProxy()
	direct := t.open()
	lates := []time.Duration{60 * time.Millisecond}
	if f.once { // it does not wait for the locks of its first try: let it give up looking
		lates = append(lates, time.Second)
	}
	for _, late := range lates {
		c := t.oneConnection(dsn)
		t.checkCall("undisturbed", direct, f, t.callDisturbed(direct, c, f, undisturbed, func() {}))
		for k := 1; k <= maxRequests; k++ {
			if f.many && (late == lates[0]) == (k%2 == 0) {
				continue
			}
			r := proxy.Rule{AtRequest: k, Delay: late, Arrived: make(chan struct{})}
			fired := false
			s := t.callDisturbed(direct, c, f, arm(p, r), func() { fired = p.Heal() })
			t.checkCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			t.checkAfter(direct, f, s)
			if !fired {
				break // the call has fewer requests
			}
			// A server whose client is gone may hold the locks of a transaction for a moment longer; a call that needs them
			// waits.
			t.checkCall("afterwards", direct, f, t.callDisturbed(direct, c, f, undisturbed, func() {}))
		}
		c.Close()
	}
}

// cutAtEveryByte moves the cut over the bytes of two calls, in steps when there are many. Four clients share the cuts
// of the enqueue, which searches for its task for a while.
func cutAtEveryByte(t *test) {
	const enqueuers = 4
	direct := t.open()
	var proxies [enqueuers + 1]*proxy.Proxy
	var clients [enqueuers + 1]*dbq.Client
	for i := range proxies {
		p, dsn := t.throughProxy()
		proxies[i], clients[i] = p, t.oneConnection(dsn)
	}
	t.concurrently(len(proxies), func(_ context.Context, i int) {
		p, c := proxies[i], clients[i]
		f, first, every := faultCallNamed("Enqueue"), int64(i), int64(enqueuers)
		if i == enqueuers {
			f, first, every = faultCallNamed("Complete"), 0, 1
		}
		// The first call prepares statements, the second shows how many bytes one takes.
		for range 2 {
			t.checkCall("undisturbed", direct, f, t.callDisturbed(direct, c, f, arm(p, proxy.Rule{}), func() {}))
		}
		total := p.Sent()
		step := max(1, total/int64(t.load(50)))
		for n := 1 + first*step; n <= total; n += every * step {
			r := proxy.Rule{AtByte: n}
			s := t.callDisturbed(direct, c, f, arm(p, r), func() { p.Heal() })
			t.checkCall(fmt.Sprintf("cut after %v of %d", r, total), direct, f, s)
		}
	})
}

func cutInsideAnswer(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.oneConnection(dsn)
	for _, f := range []faultCall{faultCallNamed("Checkout"), faultCallNamed("Complete")} {
		t.checkCall("undisturbed", direct, f, t.callDisturbed(direct, c, f, undisturbed, func() {}))
		step := 1
		for keep := 0; keep < 4096; keep += step {
			r := proxy.Rule{AtRequest: 1, LoseAnswer: true, KeepBytes: keep}
			s := t.callDisturbed(direct, c, f, arm(p, r), func() { p.Heal() })
			t.checkCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			step = max(1, keep/6)
		}
	}
}

// manyChunks returns an enqueue of several statements, which therefore is a transaction with a commit.
func manyChunks(c *dbq.Client) faultCall {
	size := min(c.Info().MaxPayload, 5<<20)
	n := 9<<20/size + 1
	return faultCall{
		name: "EnqueueMany of several statements", once: true,
		call: func(ctx context.Context, q *dbq.Queue, s *faultRun) (err error) {
			ts := make([]dbq.NewTask, n)
			payload := make([]byte, size)
			for i := range ts {
				ts[i].Payload = payload
			}
			s.added, err = q.EnqueueMany(ctx, ts)
			return err
		},
		did: func(in []dbq.Task, s *faultRun) (bool, string) {
			if len(in) != 0 && len(in) != n {
				return true, fmt.Sprintf("of %d tasks %d are there", n, len(in))
			}
			for i, a := range s.added {
				if s.err == nil && a.Duplicate {
					return true, fmt.Sprintf("task %d: answered that it was a duplicate", i)
				}
			}
			return len(in) == n, ""
		},
	}
}

// commitText finds a COMMIT, and not READ COMMITTED.
var commitText = regexp.MustCompile(`COMMIT([^A-Z]|$)`)

func cutDuringCommit(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	seen := false
	for _, f := range []faultCall{faultCallNamed("Settle"), manyChunks(direct)} {
		for _, r := range []proxy.Rule{{}, {StayDown: true}, {LoseAnswer: true}, {LoseAnswer: true, StayDown: true}} {
			r.AtText = commitText
			c := t.oneConnection(dsn)
			fired := false
			s := t.callDisturbed(direct, c, f, arm(p, r), func() { fired = p.Heal() })
			c.Close()
			seen = seen || fired
			t.checkCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			if s.err != nil && !r.StayDown && !(f.once && errors.Is(s.err, dbq.ErrMayHaveHappened)) {
				t.Errorf("%s, cut at %v: the server is there, and still: %v", f.name, r, s.err)
			}
		}
	}
	if !seen {
		t.Skipf("no COMMIT was seen in what clients send; it may be encrypted")
	}
}

func cutDuringCallersTx(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	const queue = "callers"
	task := t.takeNew(direct.Queue(queue), dbq.NewTask{}, long)
	ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
	defer cancel()
	tx, err := c.DB().BeginTx(ctx, nil)
	t.must(err)
	defer tx.Rollback()
	id, err := c.Queue(queue).EnqueueTx(ctx, tx, dbq.NewTask{})
	t.must(err)
	t.must(c.Queue(queue).CompleteTx(ctx, tx, task.Lease, nil))
	p.CutAll()
	if err := tx.Commit(); err == nil {
		t.Errorf("the commit after the cut succeeded, want an error")
	}
	t.wantGone(direct, id)
	// The server may not have noticed yet that its client is gone; the lease is settled as soon as it has.
	t.must(direct.Queue(queue).Complete(t.ctx, task.Lease, nil))
	t.wantState(direct, task.ID, dbq.StateCompleted)
}

// cancelMidway needs no network: it ends contexts at random moments of calls.
func cancelMidway(t *test) {
	direct := t.open()
	c := t.open()
	for _, f := range faultCalls() {
		start := time.Now()
		t.checkCall("undisturbed", direct, f, t.callDisturbed(direct, c, f, undisturbed, func() {}))
		usual := max(time.Since(start), 200*time.Microsecond)
		for range t.load(8) {
			after := time.Duration(t.rand.Int64N(int64(usual)))
			s := t.callDisturbed(direct, c, f, func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancel(ctx)
				timer := time.AfterFunc(after, cancel)
				return ctx, func() { timer.Stop(); cancel() }
			}, func() {})
			t.checkCall(fmt.Sprintf("cancelled after %v", after), direct, f, s)
			t.checkAfter(direct, f, s)
		}
	}
}
