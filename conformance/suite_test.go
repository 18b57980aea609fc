package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dbq-go/dbq/conformance/cases"
)

// What a case could not remove is tried again at the end of the run, and named when that fails, too.
func TestLeftoversAreRemovedOrReported(t *testing.T) {
	t.Parallel()
	s := newSuite(Harness{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stuck := func(name string, err error) cases.Object {
		return cases.Object{Name: name, Drop: func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("%s is to be removed with a context that has ended", name)
			}
			return err
		}}
	}
	s.leave(stuck("once", nil), stuck("always", errors.New("stuck")))
	if left := s.sweep(ctx); !slices.Equal(left, []string{"always"}) {
		t.Errorf("left are %q, want only always", left)
	}
}
