package cases

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/google/uuid"
)

// fleetCases are about the state that workers of one database share: pauses, settings, the registry, and who leads.
func fleetCases() []Case {
	return inGroup("Fleet",
		Case{Name: "PausedHandsOutNothing", run: fleetPaused,
			Law: "A paused queue hands out no task, due or expired, but accepts and settles them; other queues go on."},
		Case{Name: "PauseUnderLoad", run: fleetPauseUnderLoad,
			Law: "No checkout that begins after a pause returns a task, whatever other clients do at the time."},
		Case{Name: "ConcurrentConfigure", Once: true, run: fleetConfigureTogether,
			Law: "Concurrent changes to different settings of a queue are all applied."},
		Case{Name: "OneLeads", Once: true, run: fleetOneLeads,
			Law: "Of many candidates exactly one leads, as long as it keeps renewing, and another one soon after its term " +
				"ends, or at once if it resigns. A term that is longer than any member could have set counts as expired."},
	)
}

func fleetPaused(t *test) {
	c := t.open()
	q, other := c.Queue("paused"), c.Queue("other")
	working := t.takeNew(q, dbq.NewTask{}, long)
	t.enqueue(q, dbq.NewTask{})
	abandoned := t.abandon(q).ID
	ops := admin.New(c)
	t.must(ops.PauseQueue(t.ctx, q.Name(), admin.Reason("the mail server is down")))
	t.must(ops.PauseQueue(t.ctx, q.Name(), admin.Reason("the mail server is still down")))
	due := t.enqueue(q, dbq.NewTask{})
	t.enqueue(other, dbq.NewTask{})
	for range 3 { // a client does not look for lost leases each time
		t.wantNone("checkout of a paused queue", q)
		t.wantNone("checkout of a paused queue by another client", t.open().Queue("paused"))
	}
	t.take(other, long)
	infos := must(ops.Queues(t.ctx))
	if len(infos) != 1 || !infos[0].Paused || infos[0].Queue != "paused" ||
		infos[0].Reason != "the mail server is still down" || infos[0].By != c.Info().Name ||
		infos[0].Since.IsZero() {
		t.Errorf("got %+v, want one queue with its pause", infos)
	}
	renewed := must(q.Extend(t.ctx, working.Lease, long))
	t.must(q.Complete(t.ctx, renewed, nil))
	t.wantState(c, due, dbq.StateCreated)
	t.wantState(c, abandoned, dbq.StateProcessing)
	t.must(ops.ResumeQueue(t.ctx, q.Name()))
	t.must(ops.ResumeQueue(t.ctx, q.Name()))
	t.wantSameIDs("handed out after the pause", idsOf(t.takeN(q, 2, long)), []uuid.UUID{due, abandoned})
	if infos, err := ops.Queues(t.ctx); err != nil || len(infos) != 0 {
		t.Errorf("got %+v, %v, want no queue that has anything set", infos, err)
	}
}

func fleetPauseUnderLoad(t *test) {
	const workers = 4
	c, q := t.openQueue()
	t.enqueueMany(q, 2000, nil)
	var queues []*dbq.Queue
	for range workers {
		queues = append(queues, t.open().Queue(q.Name()))
	}
	var paused atomic.Bool // from when PauseQueue has returned
	t.concurrently(workers+1, func(ctx context.Context, i int) {
		if i == workers {
			time.Sleep(20 * time.Millisecond)
			t.must(admin.New(c).PauseQueue(ctx, q.Name()))
			paused.Store(true)
			return
		}
		for after := 0; after < 20; {
			began := paused.Load()
			tasks := must(queues[i].Checkout(ctx, 2, long))
			if began {
				after++
			}
			if began && len(tasks) > 0 {
				t.Fatalf("a checkout that began after the pause returned %d tasks", len(tasks))
			}
		}
	})
}

func fleetConfigureTogether(t *test) {
	changes := []func(s *admin.QueueSettings){
		func(s *admin.QueueSettings) { s.Concurrency = 1 }, func(s *admin.QueueSettings) { s.MaxCheckout = 2 },
		func(s *admin.QueueSettings) { s.Poll = 3 * time.Second }, func(s *admin.QueueSettings) { s.MaxAttempts = 4 },
		func(s *admin.QueueSettings) { s.History = dbq.HistoryNone },
		func(s *admin.QueueSettings) { s.Retention.Poison = time.Hour },
	}
	ops := admin.New(t.open())
	t.concurrently(len(changes), func(ctx context.Context, i int) {
		t.must(ops.ConfigureQueue(ctx, "q", changes[i]))
	})
	s, err := ops.QueueSettings(t.ctx, "q")
	if want := (admin.QueueSettings{Concurrency: 1, MaxCheckout: 2, Poll: 3 * time.Second, MaxAttempts: 4,
		History:   dbq.HistoryNone,
		Retention: dbq.Retention{Poison: time.Hour}}); err != nil || s != want {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
}

func fleetOneLeads(t *test) {
	const many, ttl = 5, 2 * time.Second
	c := t.open()
	var count atomic.Int64
	t.concurrently(many, func(ctx context.Context, i int) {
		who := fmt.Sprint("worker ", i)
		leads, err := access.Of(c).Control.TryLead(ctx, "election", who, time.Minute) // none comes after its term
		t.failIf(err != nil, "%s: %v", who, err)
		if leads {
			count.Add(1)
		}
	})
	if count.Load() != 1 {
		t.Fatalf("%d lead, want 1", count.Load())
	}
	const ahead = 24 * time.Hour // of a clock that has been set back since
	lead := func(role, member string, ttl time.Duration) bool {
		return must(access.Of(c).Control.TryLead(t.ctx, role, member, ttl))
	}
	for i, try := range []struct {
		role, member string
		ttl          time.Duration
		leads        bool
	}{
		{"cleaning", "first", ttl, true}, {"cleaning", "second", ttl, false},
		{"cleaning", "first", ttl, true}, {"cleaning", "second", ttl, false}, {"another duty", "second", ttl, true},
		// A statement that began before the leader's may read its end, which is then more than a term ahead.
		{"a little ahead", "first", ttl + time.Second, true}, {"a little ahead", "second", ttl, false},
		{"set ahead", "first", ahead + ttl, true}, {"set ahead", "second", ttl, true},
	} {
		if got := lead(try.role, try.member, try.ttl); got != try.leads {
			t.Errorf("try %d: %+v leads: %v", i, try, got)
		}
	}
	t.eventually("another member leads when the leader has stopped asking", func() bool {
		return lead("cleaning", "second", ttl)
	})
	t.must(access.Of(c).Control.Resign(t.ctx, "first")) // its successor keeps its duties
	t.failIf(lead("cleaning", "first", ttl), "the first leader leads again beside its successor")
	lead("long duty", "first", long)
	t.must(access.Of(c).Control.Resign(t.ctx, "first"))
	t.failIf(!lead("long duty", "second", long), "another member does not lead after the leader resigned")
}
