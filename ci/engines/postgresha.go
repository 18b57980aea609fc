//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// postgresHA is PostgreSQL with synchronous_standby_names = 'ANY 1'.
type postgresHA struct{ nodes []*server }

// settings are the same on each node, in its file: pg_rewind copies that, and recovers a node by it. Each node may
// become the primary, and the others are its standbys then.
func (c postgresHA) settings() string {
	return fmt.Sprintf(`listen_addresses = '%s'
unix_socket_directories = ''
max_connections = 200
dynamic_shared_memory_type = mmap # a tree has no /dev/shm
fsync = %s
wal_log_hints = on
wal_keep_size = 128MB
checkpoint_timeout = 30s # pg_rewind reads the log from the last common checkpoint on
wal_retrieve_retry_interval = 100ms
synchronous_commit = remote_apply
synchronous_standby_names = 'ANY 1 (%s, %s, %s)'
`, address, setting("on"), c.nodes[0].name, c.nodes[1].name, c.nodes[2].name)
}

func (c postgresHA) form() error {
	first := c.nodes[0]
	return steps(
		first.initdb,
		func() error { return add(first, "postgresql.conf", c.settings()) },
		func() error { return c.serve(first) },
		func() error { return each(c.nodes[1:], func(n *server) error { return c.copyAndFollow(n, first) }) },
		func() error { return c.followed(first, "sync_state = 'quorum'", 2) })
}

// serve starts a node. As a standby it goes by its cluster_name.
func (postgresHA) serve(n *server) error { return n.servePostgres("cluster_name=" + n.name) }

func (c postgresHA) copyAndFollow(n, primary *server) error {
	return steps(
		func() error {
			return n.makeData(func(data string) error {
				_, err := n.runIn(data, "pg_basebackup", "-h", address, "-p", primary.port("port"), "-U", "postgres", "-D", data,
					"-R", "-X", "stream", "-c", "fast", "--no-sync")
				return err
			})
		},
		func() error { return follow(n, primary) },
		func() error { return c.serve(n) })
}

// add appends to a file of a node.
func add(n *server, file, text string) error {
	f, err := os.OpenFile(n.path(file), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// follow makes a node a standby of the primary, from its next start or reload on.
func follow(n, primary *server) error {
	return add(n, "postgresql.auto.conf",
		"primary_conninfo = 'host="+address+" port="+primary.port("port")+" user=postgres'\n")
}

// followed waits until so many standbys fulfil a condition.
func (postgresHA) followed(primary *server, condition string, standbys int) error {
	count := "select count(*) from pg_stat_replication where " + condition
	return primary.await("followed", func() bool { return primary.says(count, strconv.Itoa(standbys)) })
}

func (c postgresHA) writer() (*server, error) {
	for _, n := range c.nodes {
		if n.says("select pg_is_in_recovery()", "f") {
			return n, nil
		}
	}
	return nil, errNoWriter
}

// failover makes the standby that has the most the primary, when none is left, and lets the other one follow it. What
// was acknowledged is on one of them, so it queries both.
func (c postgresHA) failover(killed *server) error {
	if _, err := c.writer(); err == nil {
		return nil
	}
	var best, second *server
	most := -1
	for _, n := range c.nodes {
		if n.name == killed.name {
			continue
		}
		out, err := n.sql("select (pg_last_wal_receive_lsn() - '0/0')::bigint")
		if err != nil {
			return err
		}
		if position, _ := strconv.Atoi(out); position > most {
			best, second, most = n, best, position
		} else {
			second = n
		}
	}
	return steps(
		func() error { _, err := best.sql("select pg_promote(true, 30)"); return err },
		func() error { return follow(second, best) },
		func() error { _, err := second.sql("select pg_reload_conf()"); return err },
		func() error { return c.followed(best, "sync_state = 'quorum'", 1) })
}

// restart brings a node back as a standby.
func (c postgresHA) restart(n *server) error {
	primary, err := c.writer()
	if err != nil {
		return err
	}
	_ = os.Remove(n.path("postmaster.pid"))
	return steps(
		func() error { return c.rewind(n, primary) },
		func() error { return follow(n, primary) },
		func() error { return c.serve(n) },
		func() error {
			return c.followed(primary, "state = 'streaming' and application_name = '"+n.name+"'", 1)
		})
}

// rewind makes a killed primary a standby. What it had written and no standby got was never acknowledged: pg_rewind
// takes it away.
func (postgresHA) rewind(n, primary *server) error {
	standby := n.path("standby.signal")
	if exists(standby) {
		return nil
	}
	if _, err := n.run("pg_rewind", "-D", n.data(), "--no-sync",
		"--source-server=host="+address+" port="+primary.port("port")+" user=postgres dbname=postgres"); err != nil {
		return err
	}
	return steps(
		func() error { return os.WriteFile(standby, nil, 0o600) },
		func() error { return n.own(standby) })
}
