package dbq

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
)

func TestClientShowsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "Tr0ub4dor"
	open := func(ctx context.Context, _ string, _ dialect.Password) (dialect.Pool, error) {
		return sqlite.Open(ctx, "sqlite::memory:", nil)
	}
	dialect.Register(dialect.Driver{Schemes: []string{"guarded"}, Dialect: sqlite.Dialect{}, Open: open})
	const dsn = "guarded://app@srv:" + secret + "@db.example:7/shop?token=" + secret
	c, err := Open(t.Context(), dsn, WithMigrate(), WithName("web-3"))
	check.OK(t, err)
	defer c.Close()
	const want = "dbq client web-3 on SQLite "
	if got := c.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " at guarded://db.example:7/shop") {
		t.Errorf("String is %q", got)
	}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("text", "client", c)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("json", "client", c)
	if !strings.Contains(logged.String(), "client.database=guarded://db.example:7/shop") {
		t.Errorf("logged %s", &logged)
	}
	//lint:ignore SA9005 that nothing of it is in JSON is what this is about
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Error(err)
	}
	shown := []string{logged.String(), string(asJSON), fmt.Sprintf("%+v %#v", struct{ C *Client }{c}, []any{c}),
		fmt.Sprintf("%+v", c.cfg)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		shown = append(shown, fmt.Sprintf(verb, c))
	}
	for _, text := range shown {
		if strings.Contains(text, secret) {
			t.Errorf("the secret is shown: %s", text)
		}
	}
	made, err := New(t.Context(), c.DB(), sqlite.Dialect{}, WithName("web-4"))
	if err != nil || strings.Contains(made.String(), " at ") || made.Info().Target != (dialect.Target{}) {
		t.Errorf("a client on a pool is %v, %v", made, err)
	}
}
