package dialecttest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Opens checks that each DSN opens a pool of so many connections, and that printing the pool does not show the
// password, which is "hush".
func Opens(t *testing.T, open Open, conns map[string]int) {
	t.Helper()
	for dsn, want := range conns {
		pool, err := open(t.Context(), dsn, nil)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if got := pool.Write.Stats().MaxOpenConnections; got != want {
			t.Errorf("%s: the pool takes %d connections, want %d", dsn, got, want)
		}
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(verb, pool.Write); strings.Contains(text, "hush") {
				t.Errorf("%s: the pool shows the password by %s: %s", dsn, verb, text)
			}
		}
		pool.Close()
	}
}

// Refuses checks that each DSN is refused by an error with this text, which says what to change, and that the error
// does not show the password, which is "hush".
func Refuses(t *testing.T, open Open, says map[string]string) {
	t.Helper()
	for dsn, want := range says {
		_, err := open(t.Context(), dsn, nil)
		if !errors.Is(err, dialect.ErrDSN) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", dsn, err, want)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: the error shows the password: %v", dsn, err)
		}
	}
}

// KeepsPasswords checks that errors about unreadable DSNs do not show the password, however odd it is. Each format has
// a %s for it.
func KeepsPasswords(t *testing.T, formats ...string) {
	t.Helper()
	for _, password := range []string{
		"hush", "hush@2", "a:hush:b", "a/hush/b", "100%hush", "hush%402", "hush%zz", "hush?a=b", "hush#1", `hush"x`, `hush\x`,
		"hush hush",
		"p@x:hush/y", "hush[1]", "a,hush", "hush,b:c", "hush/,x@y", "hüsch-hush",
	} {
		for _, format := range formats {
			dsn := fmt.Sprintf(format, password)
			_, pool, err := sqlrun.Open(t.Context(), dsn, nil)
			if err == nil { // an odd password can make an odd but readable DSN
				pool.Close()
			} else if strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v", dsn, err)
			}
		}
	}
}
