//go:build unix

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// A machine is where servers run.
type machine struct {
	state  string // the directory of ports, process ids and data
	trees  string // the directory of the Debian trees
	inTree string // the directory of data of servers that run in a tree, as they see it
	root   bool   // this program may change into a tree and become another user
}

func openMachine(state, trees string) (machine, error) {
	m := machine{state: state, trees: trees, root: os.Geteuid() == 0}
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
	// One for each state directory, whatever path leads there. A socket's path has at most 107 bytes.
	state = resolved(filepath.Clean(m.state))
	name := regexp.MustCompile(`[^\w.-]`).ReplaceAllString(filepath.Base(state), "_")
	m.inTree = fmt.Sprintf("/srv/%.32s-%.6x", name, sha256.Sum256([]byte(state)))
	return m, nil
}

// resolved is a path without symbolic links, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || path == "/" {
		return real
	}
	return filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))
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

// locked runs what changes the state directory, which it makes. Another run of the program waits until it is done.
func (m machine) locked(change func() error) error {
	if err := m.prepare(); err != nil {
		return err
	}
	directory, err := os.Open(m.state)
	if err != nil {
		return err
	}
	defer directory.Close()
	if err := syscall.Flock(int(directory.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	mine, _ := directory.Stat()
	if now, _ := os.Stat(m.state); !os.SameFile(mine, now) { // the other run was a stop, and removed it
		return m.locked(change)
	}
	return change()
}

// started are the servers that have files in the state directory, or data in a tree: the directory may have been
// removed without a stop.
func (m machine) started() []*server {
	ports, _ := fs.Glob(os.DirFS(m.state), "*.port")
	data, _ := filepath.Glob(filepath.Join(m.trees, "*", m.inTree, "*"))
	var names []string
	for _, path := range slices.Concat(ports, data) {
		names = append(names, strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".port"), unfinished))
	}
	slices.Sort(names)
	var servers []*server
	for _, name := range slices.Compact(names) {
		s, err := m.server(name)
		if err != nil {
			say("%s of %s: %v", name, m.state, err)
			continue
		}
		servers = append(servers, s)
	}
	return servers
}

// unused reports whether there is nothing to stop, and no state directory either.
func (m machine) unused() bool {
	_, err := os.Stat(m.state)
	return errors.Is(err, fs.ErrNotExist) && len(m.started()) == 0
}

// forget removes a server's files from the state directory, its claims, and its cluster's mark.
func (m machine) forget(s *server) {
	files, _ := fs.Glob(os.DirFS(m.state), s.name+".*")
	for _, f := range files {
		_ = os.Remove(filepath.Join(m.state, f))
	}
	s.release()
	for _, c := range clusterNames {
		if isNode(s.name, c) {
			_ = os.Remove(m.mark(c))
		}
	}
}

// mark is the file that says that a cluster was started completely.
func (m machine) mark(cluster string) string { return filepath.Join(m.state, cluster) }

// tidy removes directories that are empty now. The state directory may have been made by another program and still be
// in use.
func (m machine) tidy() {
	directories, _ := filepath.Glob(filepath.Join(m.trees, "*", m.inTree))
	for _, f := range append(directories, filepath.Join(m.state, "data"), m.state) {
		_ = os.Remove(f)
	}
}
