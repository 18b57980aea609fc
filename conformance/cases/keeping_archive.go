package cases

import (
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// keepingArchiveOfID archives three tasks of one id, one after the other, among others.
func keepingArchiveOfID(t *test) {
	const keep = 20 * time.Millisecond
	c := t.open()
	q, id := c.Queue("q"), dbq.NewID()
	want := []string{"first", "second", "third"}
	for _, round := range want {
		t.enqueue(q, dbq.NewTask{})
		t.enqueue(q, dbq.NewTask{ID: id})
		for _, task := range t.checkout(q, 10, long) {
			t.must(q.Complete(t.ctx, task.Lease, []byte(round)))
			t.awaitAge(c, task.ID, keep)
		}
		done, err := admin.New(c).Clean(t.ctx, q.Name(), dbq.Retention{Completed: keep, Archive: true})
		if err != nil || done.Tasks != 2 {
			t.Errorf("%s: cleaned %+v, %v, want 2 tasks", round, done, err)
		}
	}
	archived, err := admin.New(c).Archived(t.ctx, admin.Filter{Queue: "q"})
	t.must(err)
	var got []string
	for _, task := range archived {
		if task.ID == id {
			got = append(got, string(task.Result))
		}
	}
	if len(archived) != 6 || !slices.Equal(got, want) {
		t.Errorf("the archive has %d tasks, and %q of the id; want 6 and %q", len(archived), got, want)
	}
	for size := 1; size < len(archived); size++ {
		var paged []dbq.Task
		for f := (admin.Filter{Queue: "q", Limit: size}); ; {
			page, err := admin.New(c).ArchivedPage(t.ctx, f)
			t.must(err)
			if paged = append(paged, page.Tasks...); !page.More {
				break
			}
			f.After = page.Next
		}
		if !slices.EqualFunc(paged, archived, func(a, b dbq.Task) bool { return a.ID == b.ID && a.Fence == b.Fence }) {
			t.Errorf("pages of %d have %d tasks, want the same as the list: %d", size, len(paged), len(archived))
		}
	}
	t.wantAttempts(c, id, "1 completed, 1 completed, 1 completed")
}

func keepingCounted(t *test) {
	c := t.open()
	q, ops := c.Queue("q"), admin.New(c)
	const keep, n = time.Millisecond, 3
	for range n {
		t.must(q.Complete(t.ctx, t.takeNew(q, dbq.NewTask{}, long).Lease, nil))
	}
	t.eventually("the tasks are archived", func() bool {
		_, err := ops.Clean(t.ctx, q.Name(), dbq.Retention{Completed: keep, Archive: true})
		t.must(err)
		kept, err := ops.CountKept(t.ctx)
		t.must(err)
		return kept.Archived == n
	})
	entries, err := ops.Audit(t.ctx, admin.AuditFilter{})
	t.must(err)
	t.must(ops.PauseQueue(t.ctx, "q"))
	t.must(ops.ResumeQueue(t.ctx, "q"))
	kept, err := ops.CountKept(t.ctx, admin.CountAll())
	if t.must(err); kept.Archived != n || kept.Audit != int64(len(entries))+2 {
		t.Errorf("got %+v, want %d tasks and %d entries", kept, n, len(entries)+2)
	}
	kept, err = ops.CountKept(t.ctx, admin.CountUpTo(1))
	if t.must(err); kept.Archived != 1 || kept.Audit != 1 {
		t.Errorf("got %+v, want 1 of each", kept)
	}
}
