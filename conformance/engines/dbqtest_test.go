package engines

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/worker"
)

// TestTestsOfProgramsRunOnEachEngine is what package dbqtest promises, with the statements of each engine.
func TestTestsOfProgramsRunOnEachEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, _ target, dsn string) {
		ctx := t.Context()
		mail := dbq.Kind[string]{Name: "mail", Queue: "q"}
		var handled []string
		mux := worker.NewMux()
		worker.Handle(mux, mail, func(ctx context.Context, task dbq.Task, to string) error {
			_, err := worker.Do(ctx, "send", func(context.Context) (bool, error) {
				handled = append(handled, to)
				return true, nil
			})
			if err == nil && to == "slow" && task.Attempt == 1 {
				return dbq.RetryIn(time.Hour, context.DeadlineExceeded)
			}
			return err
		})
		db, other := dbqtest.Open(t, dsn), dbqtest.Open(t, dsn)
		w := worker.Worker{Queue: db.Queue("q"), Handler: mux}
		_, err := mail.Enqueue(ctx, db.Client, "later", func(n *dbq.NewTask) { n.Delay = 24 * time.Hour })
		check.OK(t, err)
		_, err = mail.Enqueue(ctx, db.Client, "slow")
		check.OK(t, err)
		s := schedule.New(db.Client)
		check.OK(t, s.Put(ctx, schedule.For(mail, "hourly", schedule.Schedule{Name: "s", Every: time.Hour})))

		want := func(what string, ran int, names ...string) {
			t.Helper()
			if got := len(db.Run(w)); got != ran {
				t.Errorf("%s: %d tasks ran, want %d", what, got, ran)
			}
			if !slices.Equal(handled, names) {
				t.Errorf("%s: handled %q, want %q", what, handled, names)
			}
		}
		want("at once", 1, "slow")
		db.Fire(schedule.New(db.Client))
		want("before the hour", 0, "slow")
		db.Advance(time.Hour)
		want("after an hour", 1, "slow") // the step of the first attempt is remembered
		db.Fire(schedule.New(db.Client))
		want("after the schedule", 1, "slow", "hourly")
		db.Advance(24 * time.Hour)
		want("after a day", 1, "slow", "hourly", "later")

		_, err = mail.Enqueue(ctx, db.Client, "leased")
		check.OK(t, err)
		first, err := db.Queue("q").Checkout(ctx, 1, time.Hour)
		check.OK(t, err)
		db.Advance(2 * time.Hour)
		again, err := db.Queue("q").Checkout(ctx, 1, time.Hour)
		if len(first) != 1 || len(again) != 1 || again[0].ID != first[0].ID || err != nil {
			t.Errorf("after its lease expired, %v was handed out as %v, %v", first, again, err)
		}
		limit := admin.QueueLimits{Rate: admin.Rate{Starts: 1, Per: time.Hour, Burst: 1}}
		check.OK(t, admin.New(db.Client).DeclareLimits(ctx, "limited", limit))
		_, err = db.Queue("limited").EnqueueMany(ctx, make([]dbq.NewTask, 2))
		check.OK(t, err)
		for i := range 2 {
			for _, n := range []int{1, 0} {
				if got, err := db.Queue("limited").Checkout(ctx, 2, time.Minute); len(got) != n || err != nil {
					t.Errorf("in hour %d, %d tasks start, %v, want %d", i, len(got), err, n)
				}
			}
			db.Advance(time.Hour)
		}
		if got := other.Tasks(""); len(got) != 0 {
			t.Errorf("the tables of another test have %v", got)
		}
	})
}
