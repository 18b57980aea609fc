package engines

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
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
			if err != nil {
				t.Fatal(err)
			}
			q := producer.Queue("q")
			if _, err := q.Enqueue(t.Context(), dbq.NewTask{Payload: []byte("secret")}); err != nil {
				t.Fatal(err)
			}
			first, err := u.admin.Queue("q").Enqueue(t.Context(), dbq.NewTask{Reference: "r"})
			if err != nil {
				t.Fatal(err)
			}
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
