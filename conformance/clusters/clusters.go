// Package clusters runs the conformance suite on databases of several nodes. The laws of Contention spread their
// workers over the nodes, and the laws of Failover kill nodes; choose these by -run, since the others show no more here
// than on a single server. ci/engines/native.sh starts such clusters on one machine. A cluster of yours will do as
// well, if a program can kill its nodes and bring them back.
//
//	eval "$(ci/engines/native.sh start galera)"
//	go test ./conformance/clusters -run TestClusters/galera/cas/Failover -v
//
// The environment selects the clusters and cases:
//
//	DBQ_TEST_GALERA_NODES='mariadb://... mariadb://... mariadb://...'    a DSN for each node; see conformance.Cluster
//	DBQ_TEST_CLUSTER_CONTROL=program      is called as "program kill|restart CLUSTER NODE" and "program writer CLUSTER";
//	                                      nodes count from 1
//	DBQ_TEST_REQUIRE=galera,postgresha    these must run: a skip is a failure
package clusters

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/conformance"
	_ "github.com/dbq-go/dbq/dialect/mysql"
	_ "github.com/dbq-go/dbq/dialect/postgres"
)

// names of the clusters, as subtests and the control program have them.
var names = []string{"galera", "groupreplication", "multiprimary", "postgresha"}

// controlTimeout bounds one call of the control program. A node that comes back reads the changes that it missed.
const controlTimeout = 2 * time.Minute

// variable returns the environment variable of a cluster's DSNs.
func variable(name string) string { return "DBQ_TEST_" + strings.ToUpper(name) + "_NODES" }

// find is the cluster that the environment names, or why there is none.
func find(ctx context.Context, name string) (*conformance.Cluster, error) {
	program := os.Getenv("DBQ_TEST_CLUSTER_CONTROL")
	nodes := strings.Fields(os.Getenv(variable(name)))
	if program == "" || len(nodes) < 2 {
		return nil,
			fmt.Errorf("no cluster: set %s and DBQ_TEST_CLUSTER_CONTROL, as ci/engines/native.sh start %s prints them",
				variable(name), name)
	}
	control := func(ctx context.Context, args ...string) (string, error) { return run(ctx, program, args...) }
	act := func(verb string) func(context.Context, int) error {
		return func(ctx context.Context, node int) error {
			_, err := control(ctx, verb, name, strconv.Itoa(node+1))
			return err
		}
	}
	cl := &conformance.Cluster{Nodes: nodes, Kill: act("kill"), Restart: act("restart")}
	writer := func(ctx context.Context) (int, error) {
		out, err := control(ctx, "writer", name)
		if err != nil || out == "" {
			return -1, err
		}
		node, err := strconv.Atoi(out)
		if err != nil || node < 1 || node > len(nodes) {
			return -1, fmt.Errorf("%s writer %s: got %q, want the number of a node", program, name, out)
		}
		return node - 1, nil
	}
	node, err := writer(ctx)
	if err == nil && node >= 0 {
		cl.Writer = writer
	}
	return cl, err
}

// run calls the control program and returns its output. It does not wait for the output to be closed: a server that the
// program started may keep it open.
func run(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &problems, time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, problems.String())
	}
	return strings.TrimSpace(out.String()), nil
}
