package clusters

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/internal/check"
)

func TestMain(m *testing.M) {
	conformance.Child()
	os.Exit(m.Run())
}

// TestClusters runs the suite as cluster/strategy/group/name.
func TestClusters(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) { runCluster(t, name) })
	}
}

func runCluster(t *testing.T, name string) {
	cl, err := find(t.Context(), name)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("DBQ_TEST_REQUIRE"), ","), name) || cl != nil {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	c, err := dbq.Open(t.Context(), cl.Nodes[0], dbq.WithPrefix("probe_"), dbq.WithMigrate())
	check.OK(t, err)
	server := c.Info().Server
	c.Close()
	check.OK(t, dbq.DropTables(t.Context(), cl.Nodes[0], dbq.WithPrefix("probe_")))
	t.Attr("engine", fmt.Sprintf("%s %s, strategies %v, %d nodes", server.Product, server.Version, server.Strategies,
		len(cl.Nodes)))
	conformance.Run(t, conformance.Harness{DSN: func(string) string { return cl.Nodes[0] }, Processes: true, Cluster: cl,
		// the others are tested on single servers; where nodes share the writes there is but one
		Strategies: server.Strategies[:1]})
}
