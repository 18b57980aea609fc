package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// TestPagesOfAListHaveEachMatchOnce compares the pages of a filter with the tasks of the whole list that match, for
// filters that many tasks match, few and none, in both orders.
func TestPagesOfAListHaveEachMatchOnce(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	var mail, bills []dbq.NewTask
	for i := range 3000 {
		task := dbq.NewTask{Kind: fmt.Sprintf("kind%d", i%3)}
		if i%700 == 1 {
			task.Kind, task.Key = "rare", "k"
		}
		mail = append(mail, task)
		if i < 200 {
			bills = append(bills, dbq.NewTask{Kind: "bill"})
		}
	}
	for queue, tasks := range map[string][]dbq.NewTask{"mail": mail, "bills": bills} {
		if _, err := client.Queue(queue).EnqueueMany(t.Context(), tasks); err != nil {
			t.Fatal(err)
		}
	}
	q := client.Queue("mail")
	leased, err := q.Checkout(t.Context(), 2500, time.Hour)
	check.OK(t, err)
	for i, task := range leased {
		outcome := dbq.Poisoned(errors.New("planted"))
		if i%2 == 1 {
			outcome = dbq.Completed(nil)
		}
		if i >= 2400 {
			break
		}
		check.OK(t, q.Settle(t.Context(), task.Lease, outcome))
	}
	ops := admin.New(client)
	if _, err := ops.OperateMany(t.Context(), admin.Cancel, admin.Filter{Queue: "bills", Limit: 30}); err != nil {
		t.Fatal(err)
	}
	all, err := ops.List(t.Context(), admin.Filter{Limit: dbq.MaxBulk})
	if err != nil || all.More || len(all.Tasks) != 3200 {
		t.Fatalf("the list has %d tasks, more %v, error %v, want 3200", len(all.Tasks), all.More, err)
	}
	in := func(s dbq.State) []dbq.State { return []dbq.State{s} }
	for name, f := range map[string]admin.Filter{
		"all":              {},
		"queue":            {Queue: "bills"},
		"kind":             {Kind: "kind1"},
		"rare kind":        {Kind: "rare"},
		"no such kind":     {Kind: "none"},
		"key":              {Queue: "mail", Key: "k"},
		"waiting":          {Queue: "mail", States: in(dbq.StateCreated)},
		"completed":        {Queue: "mail", States: in(dbq.StateCompleted), Kind: "kind2"},
		"two states":       {States: []dbq.State{dbq.StatePoison, dbq.StateProcessing}},
		"poison":           {Queue: "mail", States: in(dbq.StatePoison)},
		"rare poison":      {Queue: "mail", States: in(dbq.StatePoison), Key: "k"},
		"no poison":        {Queue: "mail", States: in(dbq.StatePoison), CancelledOnly: true},
		"not cancelled":    {Queue: "bills", States: in(dbq.StatePoison), NotCancelled: true},
		"cancelled":        {CancelledOnly: true},
		"cancelled queue":  {Queue: "bills", States: in(dbq.StatePoison), CancelledOnly: true},
		"parked":           {ParkedOnly: true},
		"leased":           {Queue: "mail", States: in(dbq.StateProcessing), EnteredWithin: time.Hour},
		"leased for long":  {Queue: "mail", States: in(dbq.StateProcessing), InStateFor: time.Hour},
		"recent and waits": {States: in(dbq.StateCreated), EnteredWithin: time.Hour},
	} {
		for i := range 4 {
			f.NewestFirst, f.Limit = i%2 == 1, []int{70, 2000}[i/2]
			var got, want []uuid.UUID
			for _, task := range all.Tasks {
				if selects(f, task) {
					want = append(want, task.ID)
				}
			}
			if f.NewestFirst {
				slices.Reverse(want)
			}
			for pages := 0; ; pages++ {
				page, err := ops.List(t.Context(), f)
				if err != nil || len(page.Tasks) > f.Limit || pages > 100 {
					t.Fatalf("%s: page %d has %d tasks: %v", name, pages, len(page.Tasks), err)
				}
				for _, task := range page.Tasks {
					got = append(got, task.ID)
				}
				if page.Stopped && len(page.Tasks) == f.Limit {
					t.Errorf("%s: a full page says that it had looked at enough", name)
				}
				if !page.More {
					break
				}
				f = f.From(page.Next)
			}
			f.After, f.Before = uuid.Nil, uuid.Nil
			if !slices.Equal(got, want) {
				t.Errorf("%s, newest first %v: the pages have %d tasks, want %d", name, f.NewestFirst, len(got), len(want))
			}
		}
	}
}

// selects reports whether a filter of the test selects a task. None has been in its state for an hour.
func selects(f admin.Filter, t dbq.Task) bool {
	return (f.Queue == "" || t.Queue == f.Queue) && (f.Kind == "" || t.Kind == f.Kind) &&
		(f.Key == "" || t.Key == f.Key) && (len(f.States) == 0 || slices.Contains(f.States, t.State)) &&
		(!f.CancelledOnly || t.Cancelled) && (!f.NotCancelled || !t.Cancelled) && (!f.ParkedOnly || t.Parked()) &&
		f.InStateFor == 0
}
