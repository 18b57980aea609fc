package wire_test

import (
	"errors"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/wire"
)

func TestEveryProblemIsFoundByItsName(t *testing.T) {
	t.Parallel()
	for _, want := range append(wire.Sentinels(), wire.NoRoute, wire.WrongMediaType, wire.Internal) {
		got, ok := wire.ByName(want.Name)
		if !ok || got.Title != want.Title {
			t.Errorf("%s is %+v, %t", want.Name, got, ok)
		}
		if want.Err != nil && !errors.Is(errors.Join(got.Errors()...), want.Err) {
			t.Errorf("%s is reported as %v, want %v", want.Name, got.Errors(), want.Err)
		}
	}
	if _, ok := wire.ByName("no-such-problem"); ok {
		t.Error("an unknown name has a problem")
	}
}

// TestProblemsOfHTTPHaveErrors checks that a program can handle the problems of HTTP by the errors of package dbq. Only
// problems of a wrong path have none: no error of package dbq means that.
func TestProblemsOfHTTPHaveErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind wire.Kind
		want error
	}{
		{wire.NoRoute, nil}, {wire.NoMethod, nil}, {wire.NoDatabase, dbq.ErrNoDatabase},
		{wire.Unauthenticated, dbq.ErrDenied}, {wire.Forbidden, dbq.ErrDenied}, {wire.BadRequest, dbq.ErrInvalid},
		{wire.BadLease, dbq.ErrLeaseLost}, {wire.Busy, dbq.ErrUnavailable}, {wire.TooMany, dbq.ErrUnavailable},
		{wire.TimedOut, dbq.ErrMayHaveHappened}, {wire.Internal, dbq.ErrMayHaveHappened},
	} {
		if got := errors.Join(c.kind.Errors()...); !errors.Is(got, c.want) {
			t.Errorf("%s is reported as %v, want %v", c.kind.Name, got, c.want)
		}
	}
}
