package cases

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// limitedCalls are checkouts of queues with limits.
func limitedCalls() []faultCall {
	return []faultCall{
		limitedCall("CheckoutLimited", admin.QueueLimits{Leased: 4, KeyLeased: 2,
			Rate:    admin.Rate{Starts: 1, Per: long, Burst: 5},
			KeyRate: admin.Rate{Starts: 1, Per: long, Burst: 3}}),
		limitedCall("CheckoutOrdered", admin.QueueLimits{Leased: 2, Order: admin.OrderBlock}),
	}
}

// limitedKeys are the keys of the tasks, in the order in which they are enqueued.
const limitedKeys = "aabacaba"

// limitedCall is a checkout that finds out that the queue has limits, followed by one that knows them and asks for more
// than they allow.
func limitedCall(name string, l admin.QueueLimits) faultCall {
	return faultCall{name: name, once: true, many: true,
		prepare: func(t *test, q *dbq.Queue, _ *faultRun) {
			t.limit(q.Client(), q.Name(), l)
			t.enqueueMany(q, len(limitedKeys), func(i int, nt *dbq.NewTask) { nt.Key = limitedKeys[i : i+1] })
		},
		call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
			for _, n := range []int{1, len(limitedKeys)} {
				got, err := q.Checkout(ctx, n, long)
				if err != nil {
					return err
				}
				s.got = append(s.got, got...)
			}
			return nil
		},
		did:   func(in []dbq.Task, s *faultRun) (bool, string) { return didCheckoutLimited(l, in, s) },
		after: func(t *test, direct *dbq.Client, s *faultRun) { afterLimited(t, l, direct.Queue(s.queue), s) },
	}
}

func didCheckoutLimited(l admin.QueueLimits, in []dbq.Task, s *faultRun) (bool, string) {
	leased := map[uuid.UUID]int64{}
	for _, task := range in {
		if task.State == state.Processing {
			leased[task.ID] = task.Fence
		}
	}
	n := len(leased)
	if wrong := brokenLimit(l, in); wrong != "" {
		return n > 0, wrong
	}
	for _, task := range s.got {
		if fence, ok := leased[task.ID]; !ok || fence != task.Lease.Fence {
			return true, fmt.Sprintf("task %s was returned under fence %d, and is not leased under it", task.ID,
				task.Lease.Fence)
		}
		delete(leased, task.ID)
	}
	switch more := startable(l, in); {
	case s.err == nil && len(leased) > 0:
		return true, fmt.Sprintf("%d tasks are leased, and %d were returned", n, len(s.got))
	case s.err == nil && more > 0:
		return true, fmt.Sprintf("%d tasks were returned, and the limits allow %d more", len(s.got), more)
	case s.err == nil:
		return true, ""
	}
	return len(leased) > 0, ""
}

// afterLimited uses up what the limits still allow, which must be exactly what the call has not used, and drains the
// queue within them.
func afterLimited(t *test, l admin.QueueLimits, q *dbq.Queue, s *faultRun) {
	tasks := func(when string) []dbq.Task {
		in := t.list(q.Client(), admin.Filter{Queue: s.queue})
		if wrong := brokenLimit(l, in); wrong != "" {
			t.Fatalf("%s, %s (the call answered %v)", when, wrong, s.err)
		}
		return in
	}
	fill := func(when string) (leased []dbq.Task) {
		var in []dbq.Task
		t.eventually(fmt.Sprintf("%s, what the limits of %s allow starts (the call answered %v)", when, s.queue, s.err),
			func() bool { // its last request may still be under way
				t.checkout(q, len(limitedKeys), long)
				in = tasks(when)
				return startable(l, in) == 0
			})
		return slices.DeleteFunc(in, func(task dbq.Task) bool { return task.State != state.Processing })
	}
	complete := func(leased []dbq.Task) {
		var ss []dbq.Settlement
		for _, task := range leased { // also those whose lease was not returned, since its answer was lost
			ss = append(ss, settlement(dbq.Lease{Task: task.ID, Queue: s.queue, Fence: task.Fence}, dbq.Completed(nil)))
		}
		t.settleAll(q, ss)
	}
	complete(fill("after the call"))
	if l.Rate.Burst > 0 {
		fill("after the leased tasks")
		l.Rate = admin.Rate{}
		t.limit(q.Client(), s.queue, l)
		complete(fill("without the rate"))
		l.KeyRate = admin.Rate{}
		t.limit(q.Client(), s.queue, l)
	}
	for range limitedKeys {
		if leased := fill("at last"); len(leased) > 0 {
			complete(leased)
			continue
		}
		break
	}
	for _, task := range tasks("at the end") {
		if task.State != state.Completed || task.Attempt != 1 {
			t.Errorf("task %s of %s is %v after %d attempts, want it COMPLETED after one", task.ID, s.queue, task.State,
				task.Attempt)
		}
	}
}

// limitUse is what tasks use of the limits of their queue, or of their key. Each attempt is one start.
type limitUse struct {
	leased, starts, waiting int
}

// limitsUsed returns what tasks use of the limits of the queue, and by key. All waiting tasks must be due.
func limitsUsed(in []dbq.Task) (all limitUse, keys map[string]*limitUse) {
	keys = map[string]*limitUse{}
	for _, task := range in {
		u := keys[task.Key]
		if u == nil {
			u = &limitUse{}
			keys[task.Key] = u
		}
		for _, u := range []*limitUse{&all, u} {
			u.starts += task.Attempt
			switch task.State {
			case state.Processing:
				u.leased++
			case state.Created:
				u.waiting++
			}
		}
	}
	return all, keys
}

// brokenLimit says which limit tasks break, if any.
func brokenLimit(l admin.QueueLimits, in []dbq.Task) string {
	over := func(n, most int) bool { return most > 0 && n > most }
	if l.Order != admin.OrderNone {
		l.KeyLeased = 1
	}
	all, keys := limitsUsed(in)
	switch {
	case over(all.leased, l.Leased):
		return fmt.Sprintf("%d tasks are leased, the limit is %d", all.leased, l.Leased)
	case over(all.starts, l.Rate.Burst):
		return fmt.Sprintf("%d tasks have started, the rate allows %d", all.starts, l.Rate.Burst)
	}
	for key, u := range keys {
		switch {
		case over(u.leased, l.KeyLeased):
			return fmt.Sprintf("%d tasks of key %q are leased, the limit is %d", u.leased, key, l.KeyLeased)
		case over(u.starts, l.KeyRate.Burst):
			return fmt.Sprintf("%d tasks of key %q have started, the rate allows %d", u.starts, key, l.KeyRate.Burst)
		}
	}
	if l.Order == admin.OrderNone {
		return ""
	}
	for _, task := range in {
		for _, earlier := range in {
			if task.Key == earlier.Key && bytes.Compare(earlier.ID[:], task.ID[:]) < 0 && task.Attempt > 0 &&
				earlier.State != state.Completed {
				return fmt.Sprintf("task %s of key %q has started, and task %s before it is %v", task.ID, task.Key, earlier.ID,
					earlier.State)
			}
		}
	}
	return ""
}

// startable is how many tasks the limits allow to start now. Each waiting task must be due.
func startable(l admin.QueueLimits, in []dbq.Task) (n int) {
	if l.Order != admin.OrderNone {
		l.KeyLeased = 1
	}
	left := func(n, most, used int) int {
		if most == 0 {
			return n
		}
		return max(0, min(n, most-used))
	}
	all, keys := limitsUsed(in)
	for _, u := range keys {
		n += left(left(u.waiting, l.KeyLeased, u.leased), l.KeyRate.Burst, u.starts)
	}
	return left(left(n, l.Leased, all.leased), l.Rate.Burst, all.starts)
}
