package sqlrun

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/check"
)

func TestTryEndsWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	type on = func(context.Context) context.Context
	lease := func(d time.Duration) on {
		return func(ctx context.Context) context.Context {
			return WithPatience(ctx, func() time.Duration { return d / 3 })
		}
	}
	plain, short := func(ctx context.Context) context.Context { return ctx }, lease(time.Second)
	for name, tt := range map[string]struct {
		of   on
		want time.Duration
	}{
		"a call":              {plain, answerTimeout},
		"a worker":            {lease(15 * time.Second), 5 * time.Second},
		"with a short lease":  {short, leastPatience},
		"with a long lease":   {lease(time.Hour), answerTimeout},
		"a migration":         {Slow, slowTimeout},
		"a worker's cleaning": {func(ctx context.Context) context.Context { return Slow(short(ctx)) }, slowTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewSession(fake{classify: kit.ClassifyConn}, dialect.Pool{}, dialect.Server{}, dialect.Names{})
				try, most := s.try(tt.of(t.Context())), tt.want
				time.Sleep(most - time.Second)
				tryOf(context.WithoutCancel(try)).answered() // as a statement within it does
				begin := time.Now()
				<-try.Done()
				if got := time.Since(begin); got != most {
					t.Errorf("it ended %v after the last answer, want %v", got, most)
				}
				for err, want := range map[error]dialect.Class{
					context.Canceled:                                dialect.Ambiguous,
					&TxError{Err: context.Canceled}:                 dialect.Unavailable,
					&TxError{Committing: true, Err: errors.New("")}: dialect.Ambiguous,
				} {
					if got := try.end(err); !Silent(got) || s.Class(got) != want {
						t.Errorf("%v became %v, %v, want %v", err, got, s.Class(got), want)
					}
				}
			})
		})
	}
}

func TestTryGoesOnWhileAnAnswerArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSession(fake{classify: kit.ClassifyConn}, dialect.Pool{}, dialect.Server{}, dialect.Names{})
		try := s.try(t.Context())
		here, there := net.Pipe()
		defer there.Close()
		dial := func(context.Context, string, string) (net.Conn, error) { return here, nil }
		line, err := kit.Dialer(dial).Dial(try, "", "")
		check.OK(t, err)
		defer line.Close()
		go func() {
			for range 5 {
				time.Sleep(answerTimeout - time.Second)
				_, _ = there.Write([]byte{1})
			}
		}()
		begin := time.Now()
		go func() { _, _ = io.Copy(io.Discard, line) }()
		<-try.Done()
		if got, want := time.Since(begin), 5*(answerTimeout-time.Second)+answerTimeout; got != want {
			t.Errorf("it ended after %v, want %v: the patience after the last byte", got, want)
		}
		if err := try.end(context.Canceled); !Silent(err) {
			t.Errorf("it ended with %v", err)
		}
	})
}
