//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A cluster is three nodes that hold the same data.
type cluster struct {
	name  string
	nodes []*server
	kind
}

// A kind describes one kind of cluster.
type kind interface {
	// form starts fresh nodes and makes them a cluster.
	form() error
	// writer is the node that takes writes, nil when each does.
	writer() (*server, error)
	// failover does what a failover manager does after a node was killed.
	failover(killed *server) error
	// restart brings a killed node back on its data, and returns when it is a member again.
	restart(*server) error
}

var clusterNames = []string{"galera", "groupreplication", "multiprimary", "postgresha"}

var errNoWriter = errors.New("no node takes writes now")

func isCluster(name string) bool { return slices.Contains(clusterNames, name) }

// isNode reports whether a server is a node of a cluster.
func isNode(name, cluster string) bool {
	family, _ := splitName(name)
	return family == cluster && isCluster(cluster)
}

func (m machine) cluster(name string) (*cluster, error) {
	if !isCluster(name) {
		return nil, fmt.Errorf("unknown cluster %q; use one of %s", name, strings.Join(clusterNames, ", "))
	}
	c := &cluster{name: name}
	for _, number := range []string{"1", "2", "3"} {
		s, err := m.server(name + number)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, s)
	}
	switch name {
	case "galera":
		c.kind = galera{c.nodes}
	case "postgresha":
		c.kind = postgresHA{c.nodes}
	default:
		c.kind = groupReplication{c.nodes, name == "multiprimary"}
	}
	return c, nil
}

// start starts the cluster unless it was started. What an interrupted start left is removed first.
func (c *cluster) start() error {
	m := c.nodes[0].machine
	if exists(m.mark(c.name)) {
		return nil
	}
	return steps(
		func() error { return each(c.nodes, (*server).remove) },
		func() error { return each(c.nodes, (*server).prepare) },
		c.form,
		func() error { return os.WriteFile(m.mark(c.name), nil, 0o644) })
}

// exports are the variables for the tests: a DSN for each node, which names the others for when it is gone, and the
// program that kills nodes and brings them back.
func (c *cluster) exports(string) string {
	var dsns []string
	for i, n := range c.nodes {
		dsns = append(dsns, n.dsn(c.nodes[(i+1)%3], c.nodes[(i+2)%3]))
	}
	control, _ := filepath.Abs("ci/engines/native.sh") // which runs this program in the repository's root
	return fmt.Sprintf("export DBQ_TEST_%s_NODES='%s'\nexport DBQ_TEST_CLUSTER_CONTROL='%s'\n",
		strings.ToUpper(c.name), strings.Join(dsns, " "), control)
}

// each runs a step on every node, up to the first that fails.
func each(nodes []*server, step func(*server) error) error {
	for _, n := range nodes {
		if err := step(n); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	return nil
}
