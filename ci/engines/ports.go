//go:build unix

package main

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const address = "127.0.0.1"

// port is the port for what; "port" is for clients. It is chosen once, below those that the kernel hands out.
func (s *server) port(what string) string {
	file := filepath.Join(s.machine.state, s.name+"."+what)
	for {
		if content, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(content))
		}
		port := strconv.Itoa(20000 + rand.IntN(12000))
		if l, err := net.Listen("tcp", address+":"+port); err == nil {
			l.Close()
			err := steps(
				func() error { return claim(port, file) },
				func() error { return os.WriteFile(file, []byte(port), 0o644) })
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return "0"
			}
		}
	}
}

// claims is a directory with a link for each port that a server of any state directory has, to its file there. The
// port is the server's before anything listens on it, and while the server is down.
func claims() string { return filepath.Join(os.TempDir(), "dbq-engines-ports") }

// claim fails with fs.ErrExist if another server has the port.
func claim(port, file string) error {
	if os.Mkdir(claims(), 0o777) == nil {
		_ = os.Chmod(claims(), 0o777|fs.ModeSticky) // for every user, as /tmp is
	}
	link := filepath.Join(claims(), port)
	if other, err := os.Readlink(link); err == nil && !exists(filepath.Dir(other)) { // removed without a stop
		_ = os.Remove(link)
	}
	return os.Symlink(file, link)
}

// release gives up the server's claims.
func (s *server) release() {
	links, _ := filepath.Glob(claims() + "/*")
	for _, link := range links {
		if file, _ := os.Readlink(link); strings.HasPrefix(file, filepath.Join(s.machine.state, s.name)+".") {
			_ = os.Remove(link)
		}
	}
}

func (s *server) address(what string) string { return address + ":" + s.port(what) }

// addresses lists where each of the nodes listens for what.
func addresses(nodes []*server, what string) string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.address(what))
	}
	return strings.Join(list, ",")
}
