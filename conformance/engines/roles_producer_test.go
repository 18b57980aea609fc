package engines

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// A producer with the rights of SECURITY.md enqueues and reads no payload; without the right to look a duplicate up, it
// is told so.
func TestProducerNeedsNoRightToReadPayloads(t *testing.T) {
	t.Parallel()
	for _, name := range roleTargets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "producer")
			lookUp := func(grant string) bool { return strings.Contains(grant, "reference") }
			duplicate := u.grants[slices.IndexFunc(u.grants, lookUp)]
			u.revoke(duplicate)
			producer, err := u.open(dbq.WithoutNotify())
			check.OK(t, err)
			q := producer.Queue("q")
			if _, err := q.Enqueue(t.Context(), dbq.NewTask{Payload: []byte("secret")}); err != nil {
				t.Fatal(err)
			}
			first, err := u.admin.Queue("q").Enqueue(t.Context(), dbq.NewTask{Reference: "r"})
			check.OK(t, err)
			_, err = q.Enqueue(t.Context(), dbq.NewTask{Reference: "r"})
			if !errors.Is(err, dbq.ErrDenied) || errors.Is(err, dbq.ErrMayHaveHappened) {
				t.Errorf("a duplicate without the right to look it up: got %v, want ErrDenied alone", err)
			}
			u.grant(duplicate)
			got, err := q.Enqueue(t.Context(), dbq.NewTask{Reference: "r"})
			if !errors.Is(err, dbq.ErrDuplicate) || got != first {
				t.Errorf("a duplicate: got %v, %v, want ErrDuplicate of %v", got, err, first)
			}
			if _, err := producer.Get(t.Context(), first); !errors.Is(err, dbq.ErrDenied) {
				t.Errorf("reading a task: got %v, want ErrDenied", err)
			}
		})
	}
}

// A producer of unique tasks needs each right that SECURITY.md grants it for them.
func TestProducerOfUniqueTasks(t *testing.T) {
	t.Parallel()
	for _, name := range roleTargets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "producer")
			// enqueue finds a free key, a waiting task to keep, to debounce and to replace, and a task that has ended
			enqueue := func() error {
				producer, err := u.open(dbq.WithoutNotify())
				if err != nil {
					return err
				}
				if _, err = u.admin.DB().ExecContext(t.Context(), "DELETE FROM "+u.tables+"task"); err != nil {
					t.Fatal(err)
				}
				rule := dbq.Unique{Key: "k"}
				for i, how := range []dbq.UniqueConflict{
					"", dbq.UniqueKeep, dbq.UniqueDebounce, dbq.UniqueReplace, ""} {
					if i == 4 {
						ts, err := u.admin.Queue("q").Checkout(t.Context(), 1, time.Minute)
						if err != nil || len(ts) != 1 {
							t.Fatalf("checkout of %d: %v", len(ts), err)
						}
					}
					nt := dbq.NewTask{Payload: []byte("secret"), Unique: &rule}
					if rule.OnConflict = how; how == dbq.UniqueDebounce {
						nt.Delay = time.Hour
					}
					_, err = producer.Queue("q").Enqueue(t.Context(), nt)
					if err != nil && !errors.Is(err, dbq.ErrDuplicate) {
						return err
					}
				}
				return nil
			}
			check.OK(t, enqueue())
			first := slices.IndexFunc(u.grants, func(grant string) bool { return strings.Contains(grant, "unique_key") })
			for _, grant := range u.grants[first:] {
				u.revoke(grant)
				if err := enqueue(); !errors.Is(err, dbq.ErrDenied) {
					t.Errorf("without %s: got %v, want ErrDenied", grant, err)
				}
				u.grant(grant)
			}
		})
	}
}
