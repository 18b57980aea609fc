//go:build unix

package main

// groupReplication is MySQL Group Replication; one node takes writes, or each when multi.
type groupReplication struct {
	nodes []*server
	multi bool
}

func (g groupReplication) serve(n *server, options ...string) error {
	single, everywhere := "ON", "OFF"
	if g.multi {
		single, everywhere = "OFF", "ON"
	}
	for _, o := range []string{"group-name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "ip-allowlist=" + address + "/32",
		"local-address=" + n.address("group"), "group-seeds=" + addresses(g.nodes, "group"),
		"recovery-get-public-key=ON", "member-expel-timeout=0", "single-primary-mode=" + single,
		"enforce-update-everywhere-checks=" + everywhere} {
		options = append(options, "--loose-group-replication-"+o)
	}
	_, number := splitName(n.name)
	options = append(options, "--mysqlx=OFF", "--secure-file-priv=NULL", "--innodb-redo-log-capacity=64M",
		"--server-id="+number, "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=bin",
		"--report-host="+address, "--report-port="+n.port("port"), "--plugin-load-add=group_replication.so")
	return n.launch(n.mysqld(append(options, durability()...)...))
}

const recoveryUser = `SET SESSION sql_log_bin=0;
CREATE USER repl@'` + address + `' IDENTIFIED BY 'r';
GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO repl@'` + address + `';
`

func (g groupReplication) form() error {
	return steps(
		func() error { return each(g.nodes, func(n *server) error { return n.seed(recoveryUser) }) },
		func() error {
			return each(g.nodes, func(n *server) error {
				return g.serve(n, n.initFile(), "--loose-group-replication-start-on-boot=OFF")
			})
		},
		func() error { return each(g.nodes, g.join) },
		func() error { return each(g.nodes, g.online) })
}

// join makes a fresh node a member; the first one begins the group.
func (g groupReplication) join(n *server) error {
	if err := n.await("ready", n.answers); err != nil {
		return err
	}
	begin := "start group_replication"
	if n == g.nodes[0] {
		begin = "set global group_replication_bootstrap_group=on; " + begin +
			"; set global group_replication_bootstrap_group=off"
	}
	_, err := n.sql("change replication source to source_user='repl', source_password='r'" +
		" for channel 'group_replication_recovery'; " + begin)
	return err
}

const ownMember = " from performance_schema.replication_group_members where member_id=@@server_uuid"

func (groupReplication) online(n *server) error {
	return n.await("online", func() bool { return n.says("select member_state"+ownMember, "ONLINE") })
}

func (g groupReplication) writer() (*server, error) {
	if g.multi {
		return nil, nil
	}
	for _, n := range g.nodes {
		if n.says("select member_role"+ownMember+" and member_state='ONLINE'", "PRIMARY") {
			return n, nil
		}
	}
	return nil, errNoWriter
}

func (groupReplication) failover(*server) error { return nil }

// restart brings a node back. It takes no writes before it is a member: start-on-boot makes it read-only until then.
func (g groupReplication) restart(n *server) error {
	return steps(
		func() error { return g.serve(n, "--loose-group-replication-start-on-boot=ON") },
		func() error { return g.online(n) })
}
