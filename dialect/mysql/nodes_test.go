package mysql

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

func TestDSNListsNodes(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string][]string{
		"mysql://h/d": {"h:3306"},
		"mysql://app:p%2Cs@one,two:3307/d?timeout=2s":   {"one:3306", "two:3307"},
		"mariadb://one:1,two:2,three:3/d":               {"one:1", "two:2", "three:3"},
		"mysql://app@[::1]:3307,[fe80::1],10.0.0.1:1/d": {"[::1]:3307", "[fe80::1]:3306", "10.0.0.1:1"},
		"mysql://app:a,b@one/d":                         {"one:3306"},
		"mysql://app:a@b,c@one,two/d":                   {"one:3306", "two:3306"},
	} {
		cfg, got, _, err := config(dsn)
		if err != nil || !slices.Equal(got, want) || cfg.DBName != "d" {
			t.Errorf("%s: got %v of %+v, %v, want %v", dsn, got, cfg, err, want)
		}
	}
}

// A connection goes to the first node that can be reached. It is replaced after a while, unless the DSN names a single
// node.
func TestUnreachableNodesAreSkipped(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		u, err := url.Parse(dsn)
		must(t, err)
		real := u.Host
		u.Host = "127.0.0.1:1," + real
		pool, err := Open(t.Context(), u.String(), nil)
		must(t, err)
		defer pool.Close()
		must(t, pool.Write.PingContext(t.Context()))

		u.Host = "127.0.0.1:1,127.0.0.1:2"
		none, err := Open(t.Context(), u.String(), nil)
		must(t, err)
		defer none.Close()
		err = none.Write.PingContext(t.Context())
		got := Dialect{}.Classify(err)
		if got != dialect.Unavailable || !strings.Contains(err.Error(), "none of the 2 nodes") {
			t.Errorf("nobody listens: got %v: %v, want unavailable", got, err)
		}

		// What one node says of a user is the answer, if no other serves.
		u.User, u.Host = url.UserPassword("nobody", "wrong"), "127.0.0.1:1,"+real
		denied, err := Open(t.Context(), u.String(), nil)
		must(t, err)
		defer denied.Close()
		if err := denied.Write.PingContext(t.Context()); (Dialect{}).Classify(err) != dialect.Denied {
			t.Errorf("a wrong password: got %v, want denied", err)
		}
	})
}

// The pool throws a connection away whose node said that it does not serve, and keeps it after other errors.
func TestConnectionToUnavailableNodeIsDiscarded(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		pool, err := Open(t.Context(), dsn, nil)
		must(t, err)
		defer pool.Close()
		pool.Write.SetMaxOpenConns(1)
		id := func() (n int) {
			must(t, pool.Write.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&n))
			return n
		}
		for number, kept := range map[int]bool{1047: false, 3797: false, 1062: true, 1213: true} {
			before := id()
			signal := fmt.Sprintf("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d", number)
			if _, err := pool.Write.ExecContext(t.Context(), signal); err == nil {
				t.Fatal("the signal was no error")
			}
			if got := id() == before; got != kept {
				t.Errorf("error %d: the connection was kept: %v, want %v", number, got, kept)
			}
		}
	})
}

// onCluster runs f with the DSN of each node of a cluster, and skips when the environment names none.
func onCluster(t *testing.T, name string, f func(t *testing.T, dsn string)) {
	t.Helper()
	nodes := strings.Fields(os.Getenv("DBQ_TEST_" + name + "_NODES"))
	if len(nodes) == 0 {
		t.Skipf("no cluster: set DBQ_TEST_%s_NODES, as ci/engines/native.sh start %s prints it", name, strings.ToLower(name))
	}
	for i, dsn := range nodes {
		t.Run(fmt.Sprintf("node%d", i+1), func(t *testing.T) { f(t, dsn) })
	}
}

func TestReadOnlyNodesAreSkipped(t *testing.T) {
	onCluster(t, "GROUPREPLICATION", func(t *testing.T, dsn string) {
		pool, err := Open(t.Context(), dsn, nil)
		must(t, err)
		defer pool.Close()
		var readOnly bool
		must(t, pool.Write.QueryRowContext(t.Context(), "SELECT @@read_only").Scan(&readOnly))
		if _, err := (Dialect{}).Probe(t.Context(), pool.Write); err != nil || readOnly {
			t.Errorf("the connection leads to a node that is read-only: %v, %v", readOnly, err)
		}
		only, err := Open(t.Context(), alone(t, dsn), nil)
		must(t, err)
		defer only.Close()
		must(t, only.Write.QueryRowContext(t.Context(), "SELECT @@read_only").Scan(&readOnly))
		if _, err := (Dialect{}).Probe(t.Context(), only.Write); (err != nil) != readOnly {
			t.Errorf("the only node is read-only: %v, and Probe says %v", readOnly, err)
		}
	})
}

// alone is the DSN of the first node of a list.
func alone(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	must(t, err)
	u.Host, _, _ = strings.Cut(u.Host, ",")
	return u.String()
}

// What was committed on one node is seen on the others by whoever asks after that.
func TestSessionSeesWhatOtherNodesCommitted(t *testing.T) {
	onCluster(t, "GALERA", func(t *testing.T, dsn string) {
		others := strings.Fields(os.Getenv("DBQ_TEST_GALERA_NODES"))
		s := migrated(t, alone(t, dsn))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, other := range others {
			pool, err := Open(ctx, alone(t, other), nil)
			must(t, err)
			defer pool.Close()
			for i := range 50 {
				must(t, do(t, s.Pool.Write, s, row(fresh(), "'q'", "NULL", "0", "0")))
				var here, there int
				count := text(s.Names, "SELECT COUNT(*) FROM {task}")
				must(t, s.Pool.Write.QueryRowContext(ctx, count).Scan(&here))
				must(t, pool.Write.QueryRowContext(ctx, count).Scan(&there))
				if there != here {
					t.Fatalf("after %d: %d tasks on one node, and %d on another", i, here, there)
				}
			}
		}
	})
}
