//go:build unix

// Command engines runs database servers for the tests: on loopback, without containers, from this machine's own
// packages or, as root, from the Debian trees that trees.sh builds. ci/engines/native.sh runs it.
//
// Servers outlive the program. It finds them again by the files of its state directory: NAME.port and NAME.pid.
// Before it signals a process it checks that the process works in the server's data directory, since another one may
// have the number by now. Every wait ends.
//
// It uses the standard library only: the libraries that start servers for tests (embedded-postgres, pgtest, mysqltest)
// know one engine each and no clusters.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const usage = `native.sh list                    the targets whose programs are here, and the ports of those that run
native.sh start TARGET...         starts each, and prints the variables by which the tests find it
native.sh start -found            the same for every engine that is here and has no variable yet
native.sh kill TARGET [NODE]      SIGKILL, as a crash would, and then what a failover manager would do
native.sh restart TARGET [NODE]   stops it if it runs, and starts it on the same data and port
native.sh writer CLUSTER          the number of the node that takes writes; nothing when each does
native.sh stop [TARGET...]        stops these, or all, and removes their data

Engines: postgres15, postgres17, postgres18 (or any version found), mysql97, mariadb1011, mariadb118, and pgbouncer,
a pooler in transaction mode in front of postgres18.
Clusters of nodes 1, 2 and 3: galera, groupreplication (one node takes writes), multiprimary (each does), and postgresha
(synchronous standbys, of which kill promotes one).

DBQ_ENGINES_STATE   the directory for ports and data, an absolute path; another directory is another set of servers
DBQ_ENGINES_FSYNC   on: commits are durable, and an engine has 1 GB of memory; off by default, on for clusters
DBQ_ENGINES         the directory of the trees, by default /var/cache/dbq-engines
`

func main() {
	m, err := openMachine(os.Getenv("DBQ_ENGINES_STATE"), os.Getenv("DBQ_ENGINES"))
	if err == nil {
		err = m.run(os.Args[1:])
	}
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		say("%v", err)
		os.Exit(1)
	}
}

// errUsage makes the program print its usage.
var errUsage = errors.New("usage")

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "engines: "+format+"\n", args...) }

func (m machine) run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch command, names := args[0], args[1:]; {
	case command == "list" && len(names) == 0:
		m.list()
	case command == "start" && slices.Equal(names, []string{"-found"}):
		return m.locked(m.startFound)
	case command == "start" && len(names) > 0:
		return m.locked(func() error {
			for _, name := range names {
				if err := m.start(name, name); err != nil {
					return err
				}
			}
			return nil
		})
	case command == "stop" && m.unused():
	case command == "stop":
		return m.locked(func() error { return m.stop(names) })
	case command == "writer" && len(names) == 1:
		return m.printWriter(names[0])
	case command == "kill" && (len(names) == 1 || len(names) == 2):
		return m.disturb(true, names)
	case command == "restart" && (len(names) == 1 || len(names) == 2):
		return m.locked(func() error { return m.disturb(false, names) })
	default:
		return errUsage
	}
	return nil
}

func (m machine) list() {
	for _, name := range append(m.engines(), clusterNames...) {
		p, err := m.find(name)
		if err != nil {
			continue
		}
		ports := ""
		for _, s := range m.started() {
			if s.pid() != 0 && (s.name == name || isNode(s.name, name)) {
				ports += " " + s.port("port")
			}
		}
		fmt.Printf("%-17s %s%s%s\n", name, p.tree, p.bin, ports)
	}
}

// A target is a server or a cluster that start can start.
type target interface {
	start() error             // does nothing when it runs
	exports(as string) string // the variables by which the tests find it, for a server under the name as
}

func (m machine) target(name string) (target, error) {
	if isCluster(name) {
		return m.cluster(name)
	}
	return m.server(name)
}

// start starts a target, and prints what the tests need.
func (m machine) start(name, as string) error {
	begin := time.Now()
	t, err := m.target(name)
	if err != nil {
		return err
	}
	if err := t.start(); err != nil {
		return err
	}
	fmt.Print(t.exports(as))
	say("%s runs, after %s", name, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// startFound starts every engine that is here and that the tests do not find yet. A PostgreSQL of a version that is no
// target of the tests serves as their target "postgres", of any version. A server that does not start is reported, and
// does not keep the others from it.
func (m machine) startFound() error {
	var failed []string
	for _, name := range m.engines() {
		as := name
		if strings.HasPrefix(name, "postgres") && !slices.Contains(targets, name) {
			as = "postgres"
		}
		if name == "pgbouncer" || os.Getenv(variable(as)) != "" {
			continue
		}
		if err := m.start(name, as); err != nil {
			say("%v", err)
			failed = append(failed, name)
			continue
		}
		os.Setenv(variable(as), name)
	}
	if failed != nil {
		return fmt.Errorf("did not start: %s", strings.Join(failed, ", "))
	}
	return nil
}

// variable names the variable in which the tests look for a server.
func variable(target string) string { return "DBQ_TEST_" + strings.ToUpper(target) + "_DSN" }

func (m machine) printWriter(name string) error {
	c, err := m.cluster(name)
	if err != nil {
		return err
	}
	node, err := c.writer()
	if node != nil {
		fmt.Println(strings.TrimPrefix(node.name, name))
	}
	return err
}

// disturb kills or restarts an engine, or the node of a cluster.
func (m machine) disturb(kill bool, names []string) error {
	s, err := m.server(strings.Join(names, ""))
	if err != nil {
		return err
	}
	if len(names) == 1 {
		if kill {
			return s.crash()
		}
		return steps(func() error { return s.halt(s.stopSignal()) }, s.start)
	}
	c, err := m.cluster(names[0])
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(c.nodes, func(n *server) bool { return n.name == s.name }):
		return fmt.Errorf("no node %q of %s; use 1, 2 or 3", names[1], names[0])
	case kill:
		return steps(s.crash, func() error { return c.failover(s) })
	}
	return c.restart(s)
}

// stop stops the named engines and clusters, or all, and removes their data.
func (m machine) stop(names []string) error {
	wanted := m.started()
	if len(names) > 0 {
		wanted = slices.DeleteFunc(wanted, func(s *server) bool {
			return !slices.ContainsFunc(names, func(n string) bool { return s.name == n || isNode(s.name, n) })
		})
	}
	for _, s := range wanted { // all at once, and then wait for each
		s.signal(s.stopSignal())
	}
	var failed error
	for _, s := range wanted {
		failed = errors.Join(failed, s.remove())
	}
	m.tidy()
	return failed
}

// steps runs one after the other, up to the first that fails.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
