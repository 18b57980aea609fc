package cases

import (
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/state"
)

// answerLostToExhausted loses the answer to each request, in turn, of a checkout that finds a task whose attempts are
// exhausted.
func answerLostToExhausted(t *test) {
	if t.dialect().Statements(dialect.Names{Prefix: t.Prefix}).Exhausted == "" {
		t.Skipf("this dialect does not look for tasks that a lost checkout moved to POISON")
	}
	p, dsn := t.throughProxy()
	direct := t.open()
	found := 0
	for k := 1; k <= maxRequests; k++ {
		queue := fmt.Sprintf("exhausted %d", k)
		id := t.enqueue(direct.Queue(queue), dbq.NewTask{MaxAttempts: 1})
		was := t.abandon(direct.Queue(queue))
		c := t.oneConnection(dsn)
		var out access.CheckoutResult
		var err error
		fired := t.callUnder(p, proxy.Rule{AtRequest: k, LoseAnswer: true}, c, func(ctx context.Context) {
			out, err = access.Checkout(ctx, c.Queue(queue), 5, long)
		}, nil)
		tasks, spent := out.Tasks, out.Exhausted
		what := fmt.Sprintf("the answer to request %d lost", k)
		if len(tasks) > 0 {
			t.Errorf("%s: the task was handed out again after its last attempt", what)
		}
		is := t.get(direct, id)
		switch {
		case is.State != state.Poison && len(spent) > 0:
			t.Errorf("%s: the task was reported as moved to POISON and is %v", what, is.State)
		case is.State == state.Poison && (err != nil || len(spent) != 1 || spent[0].ID != id):
			t.Errorf("%s: the task is POISON, and the checkout reported %d such tasks and error %v, want it", what, len(spent),
				err)
		case is.State == state.Poison && spent[0].Holder != was.Holder:
			t.Errorf("%s: the task was held by %q, and is reported as held by %q", what, was.Holder, spent[0].Holder)
		}
		if !fired {
			break // the call has fewer requests
		}
		if is.State == state.Poison {
			found++
		}
	}
	if found == 0 {
		t.Errorf("no lost answer was that of the request that moved the task")
	}
}
