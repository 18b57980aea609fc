//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A machine is where servers run.
type machine struct {
	state string // the directory of ports, process ids and data
	trees string // the directory of the Debian trees
	root  bool   // this program may change into a tree and become another user
}

func openMachine() (machine, error) {
	m := machine{state: os.Getenv("DBQ_ENGINES_STATE"), trees: os.Getenv("DBQ_ENGINES"), root: os.Geteuid() == 0}
	if m.trees == "" {
		m.trees = "/var/cache/dbq-engines"
	}
	switch {
	case m.state != "" && !filepath.IsAbs(m.state):
		return m, errors.New("DBQ_ENGINES_STATE must be an absolute path")
	case m.state == "" && m.root:
		m.state = filepath.Join(m.trees, "native")
	case m.state == "":
		m.state = filepath.Join(os.TempDir(), fmt.Sprintf("dbq-engines-%d", os.Geteuid()))
	}
	return m, nil
}

// prepare makes the state directory, and refuses one of another user.
func (m machine) prepare() error {
	if err := os.MkdirAll(m.state, 0o711); err != nil {
		return err
	}
	info, err := os.Stat(m.state)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", m.state)
	}
	return os.Chmod(m.state, 0o711) // the server's user must reach its data
}

// started are the servers that have files in the state directory.
func (m machine) started() []*server {
	var servers []*server
	files, _ := filepath.Glob(m.state + "/*.port")
	for _, f := range files {
		s, err := m.server(strings.TrimSuffix(filepath.Base(f), ".port"))
		if err != nil {
			say("%s: %v", f, err)
			continue
		}
		servers = append(servers, s)
	}
	return servers
}

// forget removes a server's files from the state directory, and its cluster's mark.
func (m machine) forget(s *server) {
	files, _ := filepath.Glob(filepath.Join(m.state, s.name+".*"))
	for _, c := range clusterNames {
		if isNode(s.name, c) {
			files = append(files, m.mark(c))
		}
	}
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// mark is the file that says that a cluster was started completely.
func (m machine) mark(cluster string) string { return filepath.Join(m.state, cluster) }

// tidy removes directories that are empty now. The state directory may have been made by another program and still be
// in use.
func (m machine) tidy() {
	directories, _ := filepath.Glob(filepath.Join(m.trees, "*/srv", filepath.Base(m.state)))
	for _, f := range append(directories, filepath.Join(m.state, "data"), m.state) {
		_ = os.Remove(f)
	}
}
