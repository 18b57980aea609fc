package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/dbq-go/dbq"
)

// faultCases cut, stall and cancel calls at the worst moments. What a call answers must be true: an undisturbed client looks.
func faultCases() []Case {
	var out []Case
	for _, f := range faultCalls() {
		once := f.name != "Checkout"
		out = append(out,
			Case{Name: "CutBefore" + f.name, once: once, run: func(t *T) { t.cutRequests(f, false) },
				Law: "When the connection is lost before a request gets through, " + f.name + " gets it through again or says truly that nothing happened or may have."},
			Case{Name: "AnswerLostTo" + f.name, once: once, run: func(t *T) { t.cutRequests(f, true) },
				Law: "When the answer to a request is lost, " + f.name + " finds out that it was done or says that it may have been; it neither does it twice nor denies it."},
			Case{Name: "LateTo" + f.name, once: once, run: func(t *T) { t.lateRequests(f) },
				Law: "When a request reaches the server only after its connection was given up, " + f.name + " answers what is true after its arrival, or says that it may have happened."})
	}
	out = append(out, identityFaults()...)
	return inGroup("Faults", append(out,
		Case{Name: "AnswerLostThenTakenOver", once: true, run: answerLostThenTakenOver,
			Law: "A release or a retry whose answer was lost, and whose task another worker has taken since, is not said not to have happened."},
		Case{Name: "CutAtEveryByte", once: true, run: cutAtEveryByte,
			Law: "Wherever in its bytes a connection is cut, enqueue and complete answer what is true."},
		Case{Name: "CutInsideAnswer", run: cutInsideAnswer,
			Law: "Wherever in its answer a connection is cut, checkout and complete answer what is true, and no task is held that nobody was told of."},
		Case{Name: "CutDuringCommit", once: true, run: cutDuringCommit,
			Law: "When the commit of a change of several statements or its answer is lost, all of it is there or nothing, and the call answers which or that it may be."},
		Case{Name: "CutDuringCallersTx", once: true, run: cutDuringCallersTx,
			Law: "When the connection of a caller's transaction is lost before its commit, nothing of what dbq did in it is there."},
		Case{Name: "StalledServer", run: stalledServer,
			Law: "When the server stops answering, a call with a deadline returns within the deadline and a grace of a few seconds, and answers what is true."},
		Case{Name: "CancelMidway", run: cancelMidway,
			Law: "A call whose context ends while it runs answers what is true: done, not done, or may have been."},
		Case{Name: "ServerGone", once: true, run: serverGone,
			Law: "When the server cannot be reached, every call says so within a bounded time, and nothing happened."},
		Case{Name: "ServerBackAgain", once: true, run: serverBackAgain,
			Law: "When the server is back, the same client works again without being opened anew."},
		Case{Name: "PoolOfOne", run: poolOfOne,
			Law: "Every call works on a pool of one connection."})...)
}

// maxRequests bounds the requests of one call that are cut; a call makes fewer.
const maxRequests = 25

// cutRequests cuts each request of a call in turn, on a fresh connection and on one that has made the call before, with the
// server there again at once and with the server gone until the call has returned.
func (t *T) cutRequests(f faultCall, answer bool) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	cuts, through := 0, 0
	for _, warm := range []bool{false, true} {
		for _, stay := range []bool{false, true} {
			for k := 1; k <= maxRequests; k++ {
				c := t.oneConnection(dsn)
				if warm {
					t.judgeCall("undisturbed", direct, f, t.disturb(direct, c, f, undisturbed, func() {}))
				}
				r := rule{atAsk: k, answer: answer, stay: stay}
				fired := false
				s := t.disturb(direct, c, f, p.arm(r), func() { fired = p.heal() })
				c.Close()
				if !fired {
					break // the call has fewer requests
				}
				cuts++
				what := fmt.Sprintf("cut at %v", r)
				did := t.judgeCall(what, direct, f, s)
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
	t.Logf("%d cuts, %d calls succeeded all the same", cuts, through)
}

// lateRequests gives the connection up at each request of a call in turn, and lets the request arrive soon after, or long after: as when
// a client is gone while its commit is under way.
func (t *T) lateRequests(f faultCall) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	lates := []time.Duration{60 * time.Millisecond}
	if f.once { // it does not wait for the locks of its first try: let it give up looking
		lates = append(lates, time.Second)
	}
	for _, late := range lates {
		c := t.oneConnection(dsn)
		t.judgeCall("undisturbed", direct, f, t.disturb(direct, c, f, undisturbed, func() {}))
		for k := 1; k <= maxRequests; k++ {
			r := rule{atAsk: k, late: late, arrived: make(chan struct{})}
			fired := false
			s := t.disturb(direct, c, f, p.arm(r), func() { fired = p.heal() })
			t.judgeCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			if f.after != nil {
				f.after(t, direct, s)
			}
			if !fired {
				break // the call has fewer requests
			}
			// A server whose client is gone may hold the locks of a transaction for a moment longer; a call that needs them waits.
			t.judgeCall("afterwards", direct, f, t.disturb(direct, c, f, undisturbed, func() {}))
		}
		c.Close()
	}
}

// oneConnection is a client through a proxy whose requests come one after the other: it has one connection, and one for transactions that
// the case begins.
func (t *T) oneConnection(dsn string) *dbq.Client {
	u, err := url.Parse(dsn)
	t.Must(err)
	q := u.Query()
	q.Set("pool_max_conns", "1")
	u.RawQuery = q.Encode()
	c, err := dbq.Open(t.ctx, u.String(), t.options(dbq.WithMigrate())...)
	if errors.Is(err, dbq.ErrDSN) { // a dialect that does not know the parameter
		c = t.OpenDSN(dsn)
		c.DB().SetMaxOpenConns(1)
		return c
	}
	t.Must(err)
	t.adopt(c)
	return c
}

func undisturbed(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

// arm sets a rule when the call begins.
func (p *proxy) arm(r rule) func(ctx context.Context) (context.Context, func()) {
	return func(ctx context.Context) (context.Context, func()) {
		p.set(r)
		return ctx, func() {}
	}
}

// cutAtEveryByte sweeps the cut over the bytes of two calls; in steps where they are many.
func cutAtEveryByte(t *T) {
	p, dsn := t.throughProxy()
	direct, c := t.Open(), t.oneConnection(dsn)
	for _, f := range []faultCall{faultCallNamed("Enqueue"), faultCallNamed("Complete")} {
		// The first call prepares statements, the second shows how many bytes one takes.
		for range 2 {
			t.judgeCall("undisturbed", direct, f, t.disturb(direct, c, f, p.arm(rule{}), func() {}))
		}
		total := p.bytes()
		step := max(1, total/int64(t.load(50)))
		for n := int64(1); n <= total; n += step {
			r := rule{atByte: n}
			s := t.disturb(direct, c, f, p.arm(r), func() { p.heal() })
			t.judgeCall(fmt.Sprintf("cut after %v of %d", r, total), direct, f, s)
		}
	}
}

// bytes is what clients have sent since a rule was set.
func (p *proxy) bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

func cutInsideAnswer(t *T) {
	p, dsn := t.throughProxy()
	direct, c := t.Open(), t.oneConnection(dsn)
	for _, f := range []faultCall{faultCallNamed("Checkout"), faultCallNamed("Complete")} {
		t.judgeCall("undisturbed", direct, f, t.disturb(direct, c, f, undisturbed, func() {}))
		step := 1
		for keep := 0; keep < 4096; keep += step {
			r := rule{atAsk: 1, answer: true, keep: keep}
			s := t.disturb(direct, c, f, p.arm(r), func() { p.heal() })
			t.judgeCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			step = max(1, keep/6)
		}
	}
}

// manyChunks is an enqueue of several statements and so of a transaction with a commit.
func manyChunks(c *dbq.Client) faultCall {
	size := min(c.MaxPayload(), 5<<20)
	n := 9<<20/size + 1
	return faultCall{
		name: "EnqueueMany of several statements", once: true,
		call: func(ctx context.Context, q *dbq.Queue, s *subject) (err error) {
			ts := make([]dbq.NewTask, n)
			payload := make([]byte, size)
			for i := range ts {
				ts[i].Payload = payload
			}
			s.added, err = q.EnqueueMany(ctx, ts)
			return err
		},
		did: func(in []dbq.Task, s *subject) (bool, string) {
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

func cutDuringCommit(t *T) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	seen := false
	for _, f := range []faultCall{faultCallNamed("Settle"), manyChunks(direct)} {
		for _, r := range []rule{{}, {stay: true}, {answer: true}, {answer: true, stay: true}} {
			r.atText = commitText
			c := t.oneConnection(dsn)
			fired := false
			s := t.disturb(direct, c, f, p.arm(r), func() { fired = p.heal() })
			c.Close()
			seen = seen || fired
			t.judgeCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			if s.err != nil && !r.stay && !(f.once && errors.Is(s.err, dbq.ErrMayHaveHappened)) {
				t.Errorf("%s, cut at %v: the server is there, and still: %v", f.name, r, s.err)
			}
		}
	}
	if !seen {
		t.Skipf("no COMMIT was seen in what clients send; it may be encrypted")
	}
}

func cutDuringCallersTx(t *T) {
	p, dsn := t.throughProxy()
	direct, c := t.Open(), t.OpenDSN(dsn)
	const queue = "callers"
	task := t.takeNew(direct.Queue(queue), dbq.NewTask{}, long)
	ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
	defer cancel()
	tx, err := c.DB().BeginTx(ctx, nil)
	t.Must(err)
	defer tx.Rollback()
	id, err := c.Queue(queue).EnqueueTx(ctx, tx, dbq.NewTask{})
	t.Must(err)
	t.Must(c.Queue(queue).CompleteTx(ctx, tx, task.Lease, nil))
	p.cut()
	if err := tx.Commit(); err == nil {
		t.Errorf("the commit after the cut succeeded, want an error")
	}
	t.wantGone(direct, id)
	// The server may not have noticed yet that its client is gone; the lease is settled as soon as it has.
	t.Must(direct.Queue(queue).Complete(t.ctx, task.Lease, nil))
	t.wantState(direct, task.ID, dbq.StateCompleted)
}

// cancelMidway needs no network: it ends contexts at random moments of calls.
func cancelMidway(t *T) {
	direct := t.Open()
	c := t.Open()
	for _, f := range faultCalls() {
		start := time.Now()
		t.judgeCall("undisturbed", direct, f, t.disturb(direct, c, f, undisturbed, func() {}))
		usual := max(time.Since(start), 200*time.Microsecond)
		for range t.load(8) {
			after := time.Duration(t.rand.Int64N(int64(usual)))
			s := t.disturb(direct, c, f, func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancel(ctx)
				timer := time.AfterFunc(after, cancel)
				return ctx, func() { timer.Stop(); cancel() }
			}, func() {})
			t.judgeCall(fmt.Sprintf("cancelled after %v", after), direct, f, s)
		}
	}
}
