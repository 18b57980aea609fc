// Package sample fills a database with the tasks of an imaginary shop and works on them, so that people can see dbq
// without an application of their own: dbq serve --demo. Its load is a few tasks a second, and its data is bounded.
package sample

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// The queues of the shop.
const (
	mail     = "mail"
	orders   = "orders"
	images   = "images"
	webhooks = "webhooks"
	reports  = "reports" // paused
)

// operator is the name under which the sample data is configured.
const operator = "ann"

// The errors of the shop's tasks.
var (
	errGreylisted = errors.New("mx1.example: 451 4.7.1 greylisted, try again later")
	errNoMailbox  = errors.New("mx1.example: 550 5.1.1 no such user here")
	errOutage     = errors.New("POST https://partner.example/hooks: 503 Service Unavailable")
	errRefused    = errors.New("POST https://partner.example/hooks: 401 Unauthorized: the key was revoked; " +
		"enter the new one, then reenqueue")
	errDeclined = errors.New("the payment was declined: insufficient funds")
	errFormat   = errors.New("image: unknown format")
)

// Fill adds the past of the shop: tasks in every state, schedules, limits, a paused queue, and the statistics of a
// week. It takes about two seconds. The database must be empty.
func Fill(ctx context.Context, c *dbq.Client) error {
	f := &filler{c: c, ops: admin.New(c), began: time.Now()}
	for _, step := range []func(context.Context) error{
		f.statistics, f.mail, f.images, f.webhooks, f.reports, f.limits, f.schedules, f.orders, f.crash,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("sample data: %w", err)
		}
	}
	return nil
}

// filler adds the past.
type filler struct {
	c     *dbq.Client
	ops   *admin.Admin
	began time.Time
}

// ended enqueues tasks that seem to be as old as the last hour, and gives all of them the outcomes of some attempts.
func (f *filler) ended(
	ctx context.Context, queue string, n int, task func(i int) dbq.NewTask, outcomes ...func(i int) dbq.Outcome,
) error {
	q := f.c.Queue(queue)
	ts := make([]dbq.NewTask, n)
	for i := range ts {
		ts[i] = task(i)
		ts[i].ID = idAt(f.began.Add(-time.Hour * time.Duration(n-i) / time.Duration(n)))
	}
	if _, err := q.EnqueueMany(ctx, ts); err != nil {
		return err
	}
	for _, outcome := range outcomes {
		leased, err := q.Checkout(ctx, n, time.Minute)
		if err != nil {
			return err
		}
		var ends []dbq.Settlement
		for i, t := range leased {
			ends = append(ends, dbq.Settlement{Lease: t.Lease, Outcome: outcome(i)})
		}
		if _, err := q.SettleMany(ctx, ends); err != nil {
			return err
		}
	}
	return nil
}

// idAt returns an id that was made at a time.
func idAt(t time.Time) uuid.UUID {
	id, ms := dbq.NewID(), t.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

// always returns one outcome for all tasks.
func always(o dbq.Outcome) func(int) dbq.Outcome { return func(int) dbq.Outcome { return o } }

func (f *filler) mail(ctx context.Context) error {
	again := always(dbq.RetryIn(0, errGreylisted))
	sent := func(i int) dbq.Outcome {
		return dbq.Completed(fmt.Appendf(nil, `{"message_id":"<%d@shop.example>"}`, 4000+i))
	}
	return errors.Join(
		f.ended(ctx, mail, 120, mailTask, sent),
		f.ended(ctx, mail, 7, mailTask, again, again, always(dbq.Poisoned(errNoMailbox))),
		f.ended(ctx, mail, 5, mailTask, again, always(dbq.RetryIn(4*time.Minute, errGreylisted))),
	)
}

func (f *filler) images(ctx context.Context) error {
	return errors.Join(
		f.ended(ctx, images, 25, imageTask, always(dbq.Completed([]byte(`{"sizes":[320,800,1600]}`)))),
		f.ended(ctx, images, 3, imageTask, always(dbq.Poisoned(errFormat))),
		f.ended(ctx, images, 4, imageTask),
	)
}

// backlog is how many tasks wait for their queue's rate when the shop opens: enough for some minutes.
const backlog = 280

func (f *filler) webhooks(ctx context.Context) error {
	return errors.Join(
		f.ended(ctx, webhooks, 60, webhookTask, always(dbq.Completed([]byte("200 OK")))),
		f.ended(ctx, webhooks, 2, webhookTask, always(dbq.RetryIn(0, errOutage)), always(dbq.Parked(errRefused))),
		f.ended(ctx, webhooks, 8, webhookTask, always(dbq.RetryIn(time.Minute, errOutage))),
		f.ended(ctx, webhooks, backlog, webhookTask),
	)
}

func (f *filler) reports(ctx context.Context) error {
	report := func(i int) dbq.NewTask {
		return dbq.NewTask{Kind: "monthly-report", Key: customers[i], Payload: []byte(`{"month":"2026-10"}`), Priority: 5}
	}
	return errors.Join(f.ended(ctx, reports, 3, report),
		f.ops.PauseQueue(ctx, reports, admin.By(operator), admin.Reason("the figures of October are not final")))
}

func (f *filler) limits(ctx context.Context) error {
	set := func(queue string, l admin.QueueLimits) error {
		return f.ops.ConfigureLimits(ctx, queue, func(stored *admin.QueueLimits) { *stored = l }, admin.By(operator),
			admin.Reason("sample data"))
	}
	return errors.Join(
		set(mail, admin.QueueLimits{KeyConcurrency: 3}),
		set(images, admin.QueueLimits{Concurrency: 3}),
		set(webhooks, admin.QueueLimits{Rate: admin.Rate{Starts: 120, Per: time.Minute, Burst: 20}}),
	)
}

func (f *filler) schedules(ctx context.Context) error {
	s := schedule.New(f.c)
	return errors.Join(
		s.Put(ctx, schedule.Schedule{Name: "stock", Every: time.Minute, Queue: webhooks, NoOverlap: true,
			Task: dbq.NewTask{Kind: "sync-stock", Payload: []byte(`{"warehouse":"Lyon"}`)}}),
		s.Put(ctx, schedule.Schedule{Name: "monthly-report", Cron: "0 6 1 * *", Zone: "Europe/Berlin", Queue: reports,
			Task: dbq.NewTask{Kind: "monthly-report"}}),
		s.Put(ctx, schedule.Schedule{Name: "daily-report", Cron: "30 2 * * *", Zone: "Europe/Berlin", Queue: reports,
			Task: dbq.NewTask{Kind: "daily-report"}}),
		s.Put(ctx, schedule.Schedule{Name: "newsletter", Cron: "0 9 * * 1", Zone: "America/New_York", Queue: mail,
			Task: dbq.NewTask{Kind: "newsletter", Priority: 9}, Jitter: time.Minute}),
		s.Pause(ctx, "newsletter", schedule.By(operator), schedule.Reason("no newsletter in August")),
	)
}

func (f *filler) orders(ctx context.Context) error {
	for range 6 {
		if err := order(ctx, f.c); err != nil {
			return err
		}
	}
	q := f.c.Queue(orders)
	leased, err := q.Checkout(ctx, 1, time.Minute)
	for _, t := range leased {
		err = errors.Join(err, q.Settle(ctx, t.Lease, dbq.Poisoned(errDeclined)))
	}
	return err
}

// crash leaves a worker that has stopped without notice, and the tasks that it held.
func (f *filler) crash(ctx context.Context) error {
	w := control.Worker{ID: "shop-1/images", Queue: images, Host: "shop-1", PID: 17, State: control.WorkerRunning,
		Started: f.began.Add(-26 * time.Hour), Concurrency: 3, Done: 1204, Failed: 31}
	leased, err := access.ForWorker(f.c.Queue(images), w.ID).Checkout(ctx, 2, time.Minute)
	for _, t := range leased {
		w.Held = append(w.Held, t.ID)
	}
	w.Holding = len(w.Held)
	return errors.Join(err, access.Of(f.c).Control.Announce(ctx, w, time.Millisecond))
}

var customers = []string{"acme", "globex", "initech", "umbrella", "hooli"}

func customer() string { return customers[rand.IntN(len(customers))] }

func mailTask(int) dbq.NewTask {
	kinds := []string{"receipt", "receipt", "welcome", "password-reset"}
	i := rand.IntN(len(kinds))
	user := rand.IntN(90_000)
	return dbq.NewTask{Kind: kinds[i], Key: customer(), Priority: 3 - i, MaxAttempts: 5,
		Headers: map[string]string{"locale": "en"},
		Payload: fmt.Appendf(nil, `{"to":"user%d@example.com","template":"%s","user":%d}`, user, kinds[i], user)}
}

func imageTask(int) dbq.NewTask {
	id := rand.IntN(90_000)
	return dbq.NewTask{Kind: "resize", MaxAttempts: 3, Reference: fmt.Sprintf("photo-%d-%d", id, time.Now().UnixNano()),
		Payload: fmt.Appendf(nil, `{"photo":%d,"sizes":[320,800,1600]}`, id)}
}

func webhookTask(int) dbq.NewTask {
	return dbq.NewTask{Kind: "order-event", Key: customer(), MaxAttempts: 8,
		Payload: fmt.Appendf(nil, `{"event":"order.shipped","order":%d}`, rand.IntN(90_000))}
}
