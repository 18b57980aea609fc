//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

func (s *server) startMySQL() error {
	flush, sync, memory, redo := "2", "0", "128M", "64M"
	if setting("off") == "on" {
		flush, sync, memory, redo = "1", "1", "1G", "1G"
	}
	// A table without a primary key is refused, as some managed services do by default.
	options := []string{"--innodb-log-file-size=" + redo, "--innodb-force-primary-key=ON"}
	if s.kind == "mysql" {
		options = []string{"--mysqlx=OFF", "--innodb-redo-log-capacity=" + redo, "--sync-binlog=" + sync,
			"--sql-require-primary-key=ON"}
	}
	options = append(options, "--innodb-buffer-pool-size="+memory, "--innodb-flush-log-at-trx-commit="+flush, s.initFile())
	server := s.mysqld(options...)
	if setting("off") == "off" {
		// Each table has a file of its own, which the server syncs whatever its settings: without that, making tables takes
		// half the time. What was written outlives the server, and only the machine's end would lose it.
		server.Env = append(os.Environ(), "LD_PRELOAD=libeatmydata.so.1")
	}
	return steps(
		func() error { return s.seed("") },
		func() error { return s.launch(server) },
		func() error { return s.await("ready", s.answers) })
}

// mysqld is the server with the options that all share. One that starts removes the temporary tables in its tmpdir.
func (s *server) mysqld(options ...string) *exec.Cmd {
	program := "mysqld"
	if s.kind == "mariadb" {
		program = "mariadbd"
	}
	return s.command(context.Background(), program, append([]string{"--no-defaults", "--datadir=" + s.data(),
		"--tmpdir=" + s.data(), "--socket=" + s.data() + "/server.sock", "--pid-file=" + s.data() + "/server.pid",
		"--port=" + s.port("port"), "--bind-address=" + address, "--skip-name-resolve", "--max-connections=200"},
		options...)...)
}

// seed copies the data directory that seed.sh made, unless the server has one, and writes the statements that make its
// users. Without name resolution 127.0.0.1 is not localhost.
func (s *server) seed(statements string) error {
	return s.makeData(func(data string) error {
		cp := exec.Command("cp", "-a", s.tree+"/var/lib/mysql-seed/.", ".")
		cp.Dir = s.tree + data
		if _, err := output(cp); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.tree, data, "init.sql"), []byte(statements+
			"CREATE USER IF NOT EXISTS root@'"+address+"';\n"+
			"GRANT ALL ON *.* TO root@'"+address+"' WITH GRANT OPTION;\n"), 0o644)
	})
}

func (s *server) initFile() string { return "--init-file=" + s.data() + "/init.sql" }

// sql runs statements by the engine's own client, and returns the rows without names.
func (s *server) sql(statements string) (string, error) {
	port := s.port("port")
	switch s.kind {
	case "mysql":
		return s.run("/usr/bin/mysql", "--no-defaults", "-uroot", "-h"+address, "-P"+port, "-Ne", statements)
	case "mariadb":
		return s.run("/usr/bin/mariadb", "--no-defaults", "--skip-ssl", "-uroot", "-h"+address, "-P"+port, "-Ne", statements)
	}
	return s.run("psql", "-h", address, "-p", port, "-U", "postgres", "-Atqc", statements)
}

// says reports whether a query returns this one value. A server that cannot be asked does not.
func (s *server) says(query, value string) bool {
	out, err := s.sql(query)
	return err == nil && out == value
}

func (s *server) answers() bool { return s.says("select 1", "1") }
