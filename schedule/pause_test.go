package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestRunWakesForTheNextTime: after a fire, Run pauses until the next time of what has just fired.
func TestRunWakesForTheNextTime(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} { // alone, and in a group
		db := dbqtest.New(t)
		s := New(db.Client)
		for i := range n {
			check.OK(t, s.Put(t.Context(), Schedule{Name: fmt.Sprint(i), Every: time.Second, Queue: "q"}))
		}
		db.Advance(time.Second)
		pause, err := s.fireDue(t.Context())
		if err != nil || len(db.Tasks("q")) != n {
			t.Fatalf("%d tasks, %v", len(db.Tasks("q")), err)
		}
		if pause > time.Second {
			t.Errorf("%d schedules are due again in a second, and Run pauses for %v", n, pause)
		}
	}
}

// TestPauseDoesNotIncludeTheFire: what is due soon is not delayed by as long as the fire of the others took.
func TestPauseDoesNotIncludeTheFire(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	put := func(name string, every time.Duration) {
		t.Helper()
		check.OK(t, s.Put(ctx, Schedule{Name: name, Every: every, Queue: "q"}))
	}
	put("a", time.Hour)
	put("b", time.Hour)
	db.Advance(time.Hour - 2*time.Second)
	put("soon", 4*time.Second) // due two seconds after the others
	db.Advance(2 * time.Second)
	tx, err := db.DB().BeginTx(ctx, nil) // another writer delays the fire
	check.OK(t, err)
	ended := make(chan error, 1)
	time.AfterFunc(1500*time.Millisecond, func() { ended <- tx.Rollback() })
	begin := time.Now()
	pause, err := s.fireDue(ctx)
	took := time.Since(begin)
	if err != nil || len(db.Tasks("q")) != 2 {
		t.Fatalf("%d tasks, %v", len(db.Tasks("q")), err)
	}
	if most := max(2*time.Second-took, 0) + 10*time.Millisecond; pause > most {
		t.Errorf("a schedule was due after 2s; after %v, Run pauses for %v", took, pause)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
