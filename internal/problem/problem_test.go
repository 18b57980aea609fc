package problem_test

import (
	"errors"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/problem"
)

func TestEveryProblemIsFoundByItsName(t *testing.T) {
	t.Parallel()
	for _, want := range append(problem.Sentinels(), problem.NoRoute, problem.WrongMediaType, problem.Internal) {
		got, ok := problem.ByName(want.Name)
		if !ok || got.Title != want.Title {
			t.Errorf("%s is %+v, %t", want.Name, got, ok)
		}
		if want.Err != nil && !errors.Is(errors.Join(got.Errors()...), want.Err) {
			t.Errorf("%s is reported as %v, want %v", want.Name, got.Errors(), want.Err)
		}
	}
	if _, ok := problem.ByName("no-such-problem"); ok {
		t.Error("an unknown name has a problem")
	}
}

// TestProblemsOfHTTPHaveErrors checks that a program can handle the problems of HTTP by the errors of package dbq. Only
// those of a wrong path have none: no error of package dbq means that.
func TestProblemsOfHTTPHaveErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind problem.Kind
		want error
	}{
		{problem.NoRoute, nil}, {problem.NoMethod, nil}, {problem.NoDatabase, dbq.ErrNoDatabase},
		{problem.Unauthenticated, dbq.ErrDenied}, {problem.Forbidden, dbq.ErrDenied}, {problem.BadRequest, dbq.ErrInvalid},
		{problem.BadLease, dbq.ErrLeaseLost}, {problem.Busy, dbq.ErrUnavailable}, {problem.TooMany, dbq.ErrUnavailable},
		{problem.TimedOut, dbq.ErrMayHaveHappened}, {problem.Internal, dbq.ErrMayHaveHappened},
	} {
		if got := errors.Join(c.kind.Errors()...); !errors.Is(got, c.want) {
			t.Errorf("%s is reported as %v, want %v", c.kind.Name, got, c.want)
		}
	}
}
