//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
)

// galera is MariaDB with Galera: each node takes writes.
type galera struct{ nodes []*server }

// options make a server a node. The short timeouts are for a loopback that loses nothing.
func (g galera) options(n *server) []string {
	provider := []string{"gmcast.listen_addr=tcp://" + n.address("group"), "ist.recv_addr=" + n.address("ist"),
		"gcache.size=128M", "gcache.recover=yes", "evs.suspect_timeout=PT1S", "evs.inactive_timeout=PT3S",
		"evs.keepalive_period=PT0.3S", "evs.inactive_check_period=PT0.3S", "evs.install_timeout=PT3S"}
	return append(durability(), "--innodb-log-file-size=64M", "--innodb-autoinc-lock-mode=2", "--binlog-format=ROW",
		"--wsrep-on=ON", "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
		"--wsrep-provider-options="+strings.Join(provider, ";"), "--wsrep-cluster-name=dbq",
		"--wsrep-cluster-address=gcomm://"+addresses(g.nodes, "group"), "--wsrep-node-name="+n.name,
		"--wsrep-node-address="+n.address("group"), "--wsrep-node-incoming-address="+n.address("port"),
		"--wsrep-sst-method=rsync", "--wsrep-sst-receive-address="+n.address("sst"), "--wsrep-slave-threads=2")
}

// durability sets how nodes of MySQL and MariaDB commit.
func durability() []string {
	flush := "1"
	if setting("on") == "off" {
		flush = "2"
	}
	return []string{"--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=" + flush}
}

// serve starts a node. Galera's scripts look at processes, and a tree has no /proc: the node gets one that only it sees
// and that ends with it.
func (g galera) serve(n *server, options ...string) error {
	node := n.mysqld(append(g.options(n), options...)...)
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c",
		`mount -t proc proc "$0/proc" && user=$1 && shift && exec chroot --userspec="$user" "$0" "$@"`,
		n.tree, fmt.Sprintf("%d:%d", n.uid, n.gid)}, node.Args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return n.launch(cmd)
}

func (g galera) join(n *server, options ...string) error {
	return steps(func() error { return g.serve(n, options...) }, func() error { return g.synced(n) })
}

func (galera) synced(n *server) error {
	const state = "select variable_value from information_schema.global_status" +
		" where variable_name='wsrep_local_state_comment'"
	return n.await("synced", func() bool { return n.says(state, "Synced") })
}

// form lets the first node begin the cluster's history, and copies it, so that the others have a position in it and
// need no copy over the network.
func (g galera) form() error {
	first := g.nodes[0]
	return steps(
		func() error { return first.seed("") },
		func() error { return g.join(first, first.initFile(), "--wsrep-new-cluster") },
		func() error { return first.halt(syscall.SIGTERM) },
		func() error { return each(g.nodes[1:], g.copyFirst) },
		func() error { return g.join(first, "--wsrep-new-cluster") },
		func() error { return each(g.nodes[1:], func(n *server) error { return g.serve(n) }) },
		func() error { return each(g.nodes[1:], g.synced) })
}

func (g galera) copyFirst(n *server) error {
	_, err := output(exec.Command("cp", "-a", g.nodes[0].dir(), n.dir()))
	for _, file := range []string{"gvwstate.dat", "galera.cache", "server.log"} {
		_ = os.Remove(n.path(file))
	}
	return err
}

func (galera) writer() (*server, error) { return nil, nil }

func (galera) failover(*server) error { return nil }

var recovered = regexp.MustCompile(`Recovered position: *(\S+)`)

// restart asks InnoDB for the position of a killed node, which the node itself does not know, and lets it catch up from
// there, as galera_recovery does.
func (g galera) restart(n *server) error {
	log, err := n.mysqld(append(g.options(n), "--skip-networking", "--wsrep-recover")...).CombinedOutput()
	positions := recovered.FindAllStringSubmatch(string(log), -1)
	if err != nil || positions == nil {
		return fmt.Errorf("%s does not report its position: %v\n%s", n.name, err, log)
	}
	return g.join(n, "--wsrep-start-position="+positions[len(positions)-1][1])
}
