package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/google/uuid"
)

// newLeasesOf returns leases of a worker with one task, which is leased for a minute.
func newLeasesOf(w Worker) (*leases, *leased) {
	e := &env{cfg: w}
	e.effective.Store(&settings{lease: time.Minute})
	ls := newLeases(e)
	lease := dbq.Lease{TaskID: uuid.New(), Fence: 1, Until: time.Now().Add(time.Minute)}
	return ls, &ls.add([]dbq.Task{{ID: lease.TaskID, Lease: lease}})[0]
}

// A handler's context ends when its lease has ended by the worker's clock, at its timeout, or when the lease is lost.
func TestInvocationEnds(t *testing.T) {
	t.Parallel()
	revoked := errors.New("revoked")
	for name, c := range map[string]struct {
		timeout time.Duration
		then    func(ls *leases, l *leased)
		after   time.Duration
		cause   error
	}{
		"with the lease":  {after: time.Minute, cause: dbq.ErrLeaseLost},
		"at the timeout":  {timeout: time.Second, after: time.Second, cause: ErrTimeout},
		"when it is lost": {then: func(ls *leases, l *leased) { ls.lose(l, nil) }, cause: dbq.ErrLeaseLost},
		"when an operator revokes the task": {then: func(ls *leases, l *leased) { ls.lose(l, revoked) },
			cause: revoked},
		"with the renewed lease": {then: func(ls *leases, l *leased) {
			ls.renewed(l, dbq.Lease{Until: time.Now().Add(time.Hour)})
		}, after: time.Hour, cause: dbq.ErrLeaseLost},
		"with the shortened lease": {then: func(ls *leases, l *leased) {
			ls.renewed(l, dbq.Lease{Until: time.Now().Add(time.Second)})
		}, after: time.Second, cause: dbq.ErrLeaseLost},
		"later when nobody has taken the task over": {then: func(ls *leases, l *leased) {
			ls.vouch(l, time.Now().Add(2*time.Minute))
		}, after: 2 * time.Minute, cause: dbq.ErrLeaseLost},
		"at the end of the run": {then: func(ls *leases, _ *leased) { ls.cancelAll(ErrShutdown) }, cause: ErrShutdown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ls, l := newLeasesOf(Worker{Tuning: Tuning{Grace: time.Hour}})
				defer ls.close()
				inv, gone := ls.begin(t.Context(), 0, []*leased{l}, c.timeout)
				if len(gone) > 0 {
					t.Fatal("the lease is gone at once")
				}
				if c.then != nil {
					c.then(ls, l)
				}
				<-inv.ctx.Done()
				if took, cause := time.Since(inv.start), context.Cause(inv.ctx); took != c.after || !errors.Is(cause, c.cause) {
					t.Errorf("it ended after %v with %v, want %v and %v", took, cause, c.after, c.cause)
				}
				if !inv.finish() {
					t.Error("the worker has gone on without it")
				}
			})
		})
	}
}

// A handler that ignores the end of its context is reported once, after Grace, and its task is no longer in a handler.
func TestInvocationThatIgnoresItsEndIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, l := newLeasesOf(Worker{Tuning: Tuning{Grace: time.Second}})
		defer ls.close()
		stuck := make(chan []*invocation, 2)
		ls.stuck = func(fs []*invocation) { stuck <- fs }
		inv, _ := ls.begin(t.Context(), 0, []*leased{l}, 10*time.Second)
		if got := <-stuck; len(got) != 1 || got[0] != inv || time.Since(inv.start) != 11*time.Second {
			t.Errorf("%d are stuck after %v, want one after its timeout and Grace", len(got), time.Since(inv.start))
		}
		if n := len(ls.invocations()); n != 0 || inv.finish() || len(stuck) > 0 {
			t.Errorf("%d handlers run", n)
		}
	})
}

// What has no lease any more is not begun.
func TestInvocationNeedsALease(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ls *leases, l *leased){
		"lost": func(ls *leases, l *leased) { ls.lose(l, nil) },
		"over": func(*leases, *leased) { time.Sleep(time.Minute) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ls, l := newLeasesOf(Worker{})
			defer ls.close()
			end(ls, l)
			if inv, gone := ls.begin(t.Context(), 0, []*leased{l}, 0); inv != nil || len(gone) != 1 {
				t.Errorf("a task whose lease is %s is begun", name)
			}
		})
	}
}

// Renewals leave out what was leased or renewed a moment ago, what is lost, and for longer what is being settled.
func TestLeasesToRenew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state leaseState
		age   time.Duration
		lease time.Duration
		want  bool
	}{
		"new":                      {waiting, 9 * time.Second, time.Minute, false},
		"waits for a third":        {waiting, 20 * time.Second, time.Minute, true},
		"in a handler":             {running, 20 * time.Second, time.Minute, true},
		"is settled since shortly": {finished, 29 * time.Second, time.Minute, false},
		"is settled since long":    {finished, 31 * time.Second, time.Minute, true},
		"expired":                  {expired, 20 * time.Second, time.Minute, false},
		"lost":                     {lost, 20 * time.Second, time.Minute, false},
		"shortened":                {running, time.Second, 30 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ls, l := newLeasesOf(Worker{})
			defer ls.close()
			l.state = c.state
			time.Sleep(c.age)
			if due, byKey := ls.toRenew(c.lease); (len(due) == 1) != c.want || (byKey[key(l.lease)] == l) != c.want {
				t.Errorf("%s: %d leases are to be renewed, want it: %v", name, len(due), c.want)
			}
		})
	}
}

// What was given up without an answer counts as held until its lease has ended in the database.
func TestAbandonedLeaseCountsUntilItExpires(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(ls *leases, l *leased)
		want time.Duration
	}{
		"removed":  {func(ls *leases, l *leased) { ls.remove(l, l) }, 0},
		"given up": {func(ls *leases, l *leased) { ls.giveUp(l) }, time.Minute},
		"lost": {func(ls *leases, l *leased) {
			ls.lose(l, nil)
			ls.giveUp(l)
		}, 0},
		"put off": {func(ls *leases, l *leased) {
			l.backIn = time.Second
			ls.remove(l)
		}, time.Second},
		"uncertain": {func(ls *leases, l *leased) {
			ls.remove(l)
			ls.mayHold(time.Hour)
		}, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			ls, l := newLeasesOf(Worker{})
			defer ls.close()
			if first, ok := ls.firstEnd(); !ok || !first.Equal(l.lease.Until) || ls.count() != 1 || ls.settled() {
				t.Errorf("%s: before, the first of %d leases ends at %v", name, ls.count(), first)
			}
			c.end(ls, l)
			<-ls.empty
			if time.Sleep(c.want); c.want > 0 && ls.settled() {
				t.Errorf("%s: settled already after %v", name, c.want)
			}
			if time.Sleep(time.Nanosecond); !ls.settled() || ls.count() != 0 {
				t.Errorf("%s: %d are held after %v", name, ls.count(), c.want)
			}
		})
	}
}

// A handler without Timeout that runs for an hour is logged once, one with a Timeout never.
func TestHandlersOfAnHourAreLoggedOnce(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]int{0: 1, 2 * time.Hour: 0} {
		synctest.Test(t, func(t *testing.T) {
			var text check.Log
			ls, l := newLeasesOf(Worker{})
			ls.log = newLogger(slog.New(slog.NewTextHandler(&text, nil)))
			defer ls.log.close()
			inv, _ := ls.begin(t.Context(), 1, []*leased{l}, timeout)
			defer inv.cancel(nil)
			ls.renewed(l, dbq.Lease{Until: time.Now().Add(3 * time.Hour)})
			c := &controller{env: ls.env, leases: ls, results: &results{}, unhandled: &unhandled{}, pause: &pause{}}
			for range 8 {
				time.Sleep(10 * time.Minute)
				c.describe(&control.Worker{})
			}
			if n := strings.Count(text.String(), lineLong.text); n != want {
				t.Errorf("with a timeout of %v it is logged %d times, want %d", timeout, n, want)
			}
		})
	}
}
