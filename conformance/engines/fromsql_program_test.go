//go:build unix

package engines

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runSQL runs statements in one session, by a program that is no part of dbq, or by the driver alone where there is no
// such program.
func (f *fromSQL) runSQL(dsn, text string) error {
	f.t.Helper()
	cmd := programFor(f.t, dsn)
	if cmd == nil {
		return f.runByDriver(text)
	}
	cmd.Stdin = strings.NewReader(text)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, &out)
	}
	return nil
}

// runByDriver runs statements on a connection of the client's pool.
func (f *fromSQL) runByDriver(text string) error {
	conn, err := f.c.DB().Conn(f.t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	for statement := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := conn.ExecContext(f.t.Context(), statement); err != nil {
			_, rollback := conn.ExecContext(f.t.Context(), "ROLLBACK") // an error outside of a transaction
			return errors.Join(err, rollback)
		}
	}
	return nil
}

// pythonSQL runs the statements of its input.
const pythonSQL = `
import sqlite3, sys
sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10).executescript(sys.stdin.read())`

// programFor is the program that runs what it reads on the database of a DSN, or nil when it is not here.
func programFor(t *testing.T, dsn string) *exec.Cmd {
	t.Helper()
	if file, is := strings.CutPrefix(dsn, "sqlite:"); is {
		file, _, _ = strings.Cut(file, "?")
		if cmd := program(t, "", "sqlite3", "-bail", "-cmd", ".timeout 10000", file); cmd != nil {
			return cmd
		}
		return program(t, "", "python3", "-c", pythonSQL, file)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN cannot be read") // it may hold a password
	}
	password, _ := u.User.Password()
	login := []string{"--protocol=tcp", "--host=" + u.Hostname(), "--port=" + cmp.Or(u.Port(), "3306"),
		"--user=" + u.User.Username(), "--default-character-set=utf8mb4", strings.Trim(u.Path, "/")}
	switch {
	case strings.HasPrefix(u.Scheme, "postgres"):
		return program(t, "", "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d", dsn)
	case u.Scheme == "mysql":
		return program(t, "MYSQL_PWD="+password, "mysql", login...)
	default:
		return program(t, "MYSQL_PWD="+password, "mariadb", append([]string{"--skip-ssl"}, login...)...)
	}
}

// program finds a program on this machine or, for root, in the trees that make engines installs.
func program(t *testing.T, environment, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), environment)
	if cmd.Err == nil {
		return cmd
	}
	trees, _ := filepath.Glob(cmp.Or(os.Getenv("DBQ_ENGINES"), "/var/cache/dbq-engines") + "/*")
	for _, tree := range trees {
		inTree := "/usr/bin/" + name
		info, err := os.Lstat(tree + inTree) // mysql is a link to mariadb in the trees of MariaDB
		if err == nil && info.Mode().IsRegular() && os.Geteuid() == 0 {
			cmd := exec.CommandContext(t.Context(), inTree, args...)
			cmd.Dir, cmd.Env = "/", append(os.Environ(), environment)
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: tree}
			return cmd
		}
	}
	return nil
}
