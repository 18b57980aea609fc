package recipes

import (
	"context"
	"errors"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
)

type tenantKey struct{}

// withTenant is for the middleware of the web service, after it knows who is logged in.
func withTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

var errNoTenant = errors.New("a task needs a tenant; see withTenant")

// setTenant is the hook: dbq.Open(ctx, dsn, dbq.WithEnqueueHook(setTenant)).
func setTenant(ctx context.Context, _ string, t *dbq.NewTask) error {
	tenant, ok := ctx.Value(tenantKey{}).(string)
	if !ok {
		return errNoTenant
	}
	t.Key = tenant // what limits by key count
	t.AddHeaders(map[string]string{"tenant": tenant})
	return nil
}

func TestTasksHaveTenants(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t, dbq.WithEnqueueHook(setTenant))
	if _, err := sendInvoices.Enqueue(t.Context(), db.Client, "May"); !errors.Is(err, errNoTenant) {
		t.Errorf("without a tenant: %v", err)
	}
	if _, err := sendInvoices.Enqueue(withTenant(t.Context(), "acme"), db.Client, "May"); err != nil {
		t.Fatal(err)
	}
	tasks := db.Tasks(sendInvoices.Queue)
	if len(tasks) != 1 || tasks[0].Key != "acme" || tasks[0].Headers["tenant"] != "acme" {
		t.Errorf("got %v, want one task of acme", tasks)
	}
}

var sendInvoices = dbq.Kind[string]{Name: "send-invoices", Queue: "billing"}
