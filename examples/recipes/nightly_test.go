package recipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/worker"
)

type reportParts struct{ Parts []string }

var report = dbq.Kind[reportParts]{Name: "report", Queue: "reports"}

// nightlyReport is due at 02:30 in Berlin. A night is skipped if the report of the night before has not ended.
var nightlyReport = schedule.For(report, reportParts{[]string{"sales", "stock"}}, schedule.Schedule{
	Name: "nightly-report", Cron: "30 2 * * *", Zone: "Europe/Berlin", NoOverlap: true,
})

// runSchedules fires the schedules of this service until ctx ends. Call it in every process.
func runSchedules(ctx context.Context, c *dbq.Client) error {
	schedules := schedule.New(c)
	if err := schedules.Reconcile(ctx, "report-service", nightlyReport); err != nil {
		return err
	}
	return schedules.Run(ctx)
}

// handleReports handles the task of a night. The scheduled time is in a header, so a late or repeated attempt reports
// on the same night.
func handleReports(mux *worker.Mux, write func(ctx context.Context, night time.Time, parts []string) error) {
	worker.Handle(mux, report, func(ctx context.Context, t dbq.Task, r reportParts) error {
		night, err := time.Parse(time.RFC3339, t.Headers[schedule.HeaderTime])
		if err != nil {
			return dbq.Poisoned(err)
		}
		return write(ctx, night, r.Parts)
	})
}

func TestNightly(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	runUntil := func(enough func() bool) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		done := make(chan error, 1)
		go func() { done <- runSchedules(ctx, db.Client) }()
		for !enough() && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	runUntil(func() bool { _, err := schedule.New(db.Client).Get(t.Context(), nightlyReport.Name); return err == nil })
	db.WantTasks("reports", dbq.StateCreated, 0)
	db.Advance(25 * time.Hour)
	runUntil(func() bool { return len(db.Tasks("reports")) > 0 })

	berlin, err := time.LoadLocation(nightlyReport.Zone)
	if err != nil {
		t.Fatal(err)
	}
	var nights []string
	mux := worker.NewMux()
	handleReports(mux, func(_ context.Context, night time.Time, parts []string) error {
		nights = append(nights, fmt.Sprint(night.In(berlin).Format("15:04"), parts))
		return nil
	})
	db.Run(worker.Worker{Queue: db.Queue("reports"), Handler: mux})
	if fmt.Sprint(nights) != "[02:30[sales stock]]" {
		t.Errorf("reported on %v, want one night", nights)
	}
}
