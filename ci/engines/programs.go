//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// targets are the engines that the tests know by name; pgbouncer needs postgres18.
var targets = []string{"postgres15", "postgres17", "postgres18", "mysql97", "mariadb1011", "mariadb118", "pgbouncer"}

// programs are those of one engine: where they are, and who runs them.
type programs struct {
	tree     string // the directory that they see as /, or "" for this machine's own
	bin      string // their directory, as they see it
	uid, gid uint32 // of the user that root becomes, since servers refuse to run as root; else 0
}

// command is a program, run as the server's user in its tree.
func (p programs) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(program) {
		program = filepath.Join(p.bin, program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: p.tree}
	if p.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.uid, Gid: p.gid}
	}
	return cmd
}

// run runs a program to its end, for a minute at most, and returns what it printed.
func (p programs) run(program string, args ...string) (string, error) {
	return p.runIn("/", program, args...)
}

func (p programs) runIn(dir, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := p.command(ctx, program, args...)
	cmd.Dir = dir
	return output(cmd)
}

func output(cmd *exec.Cmd) (string, error) {
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s", cmd.Path, err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// engines are the targets that can be started here, and PostgreSQL of every other version that is here.
func (m machine) engines() []string {
	names := slices.Clone(targets)
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	inTrees, _ := filepath.Glob(m.trees + "/*/usr/lib/postgresql/*/bin/postgres")
	for _, path := range append(versions, inTrees...) {
		names = append(names, "postgres"+filepath.Base(filepath.Dir(filepath.Dir(path))))
	}
	names = append(names, "postgres"+version("", "postgres", `(\d+)`))
	var here []string
	for _, name := range names {
		if _, err := m.find(name); err == nil && !slices.Contains(here, name) {
			here = append(here, name)
		}
	}
	return here
}

// splitName is a target's name without its digits, and the digits. Those of a node are its number.
func splitName(target string) (family, digits string) {
	family = strings.TrimRight(target, "0123456789")
	return family, target[len(family):]
}

// places are where the programs of a target's family are, and what else a tree must have. Add an engine here.
var places = map[string]struct{ user, bin, file string }{
	"postgres":         {"postgres", "/usr/lib/postgresql/VERSION/bin", "/usr/lib/postgresql/VERSION/bin/initdb"},
	"mysql":            {"mysql", "/usr/sbin", "/usr/sbin/mysqld"},
	"mariadb":          {"mysql", "/usr/sbin", "/usr/sbin/mariadbd"},
	"pgbouncer":        {"postgres", "/usr/sbin", "/usr/sbin/pgbouncer"},
	"galera":           {"mysql", "/usr/sbin", "/usr/lib/galera/libgalera_smm.so"},
	"groupreplication": {"mysql", "/usr/sbin", "/usr/lib/mysql/plugin/group_replication.so"},
	"multiprimary":     {"mysql", "/usr/sbin", "/usr/lib/mysql/plugin/group_replication.so"},
	"postgresha":       {"postgres", "/usr/lib/postgresql/18/bin", "/usr/lib/postgresql/18/bin/pg_rewind"},
}

// find locates the programs of an engine, a cluster or a node: PostgreSQL on this machine if it is there, and otherwise
// in a tree, which takes root. Without root, the pooler is this machine's too. One before 1.19.1 ends when queries are
// cancelled under load (PgBouncer's issue 822), so that of a tree is better.
func (m machine) find(name string) (programs, error) {
	family, digits := splitName(name)
	place, known := places[family]
	if !known {
		return programs{}, fmt.Errorf("unknown target %q; use one of %s", name,
			strings.Join(slices.Concat(targets, clusterNames), ", "))
	}
	place.bin = strings.ReplaceAll(place.bin, "VERSION", digits)
	place.file = strings.ReplaceAll(place.file, "VERSION", digits)
	onPath, _ := exec.LookPath("postgres")
	switch {
	case (family == "postgres" || family == "pgbouncer" && !m.root) && exists(place.file):
		return m.here(place.user, place.bin), nil
	case family == "postgres" && exists(filepath.Dir(onPath), "initdb") && version("", onPath, `(\d+)`) == digits:
		return m.here(place.user, filepath.Dir(onPath)), nil
	case !m.root:
		return programs{}, fmt.Errorf("only root can start %s: it runs in a tree", name)
	}
	trees, _ := filepath.Glob(m.trees + "/*")
	for _, tree := range trees {
		uid, gid := account(tree, place.user)
		switch {
		case uid == 0 || !exists(tree, place.file):
		case family == "mysql" && exists(tree, places["mariadb"].file): // which brings a mysqld as well
		case family == "mariadb" && version(tree, place.file, `Ver (\d+)\.(\d+)`) != digits:
		default:
			return programs{tree, place.bin, uid, gid}, nil
		}
	}
	return programs{}, fmt.Errorf("no programs for %s; make servers (as root) installs them", name)
}

// here are programs of this machine. If their user is missing, root runs them as nobody.
func (m machine) here(user, bin string) programs {
	p := programs{bin: bin}
	for _, name := range []string{user, "nobody"} {
		if m.root && p.uid == 0 {
			p.uid, p.gid = account("/", name)
		}
	}
	return p
}

// account reads the numbers of a user and its group from the tree's passwd.
func account(tree, user string) (uid, gid uint32) {
	content, _ := os.ReadFile(filepath.Join(tree, "etc/passwd"))
	for line := range strings.Lines(string(content)) {
		if f := strings.Split(line, ":"); f[0] == user && len(f) > 3 {
			u, _ := strconv.ParseUint(f[2], 10, 32)
			g, _ := strconv.ParseUint(f[3], 10, 32)
			return uint32(u), uint32(g)
		}
	}
	return 0, 0
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}

// version asks a program for its version, and joins what the groups of the pattern match: "Ver 10.11.19" is 1011.
func version(tree, program, pattern string) string {
	cmd := exec.Command(program, "--version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: tree}
	out, _ := cmd.Output()
	if m := regexp.MustCompile(pattern).FindStringSubmatch(string(out)); m != nil {
		return strings.Join(m[1:], "")
	}
	return ""
}
