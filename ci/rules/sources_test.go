// Package rules checks the repository's own rules: which package may import which, how long lines and files may be,
// what a dependent's go.sum may contain. It has tests only; "make check" runs them.
package rules

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// repository is the module's root, as seen from this directory.
const repository = "../.."

// skipped directories hold nothing that the project's authors wrote.
var skipped = map[string]bool{".git": true}

// sources calls visit with each text file of the repository: its path, relative to the root and with slashes, and its
// content. It walks the tree instead of asking git or go list, because go test caches a result until a file or
// directory that the test itself read has changed.
func sources(t *testing.T, visit func(path string, content []byte)) {
	t.Helper()
	root := filepath.Clean(repository)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case skipped[entry.Name()] && entry.IsDir():
			return fs.SkipDir
		case skipped[entry.Name()]: // in a worktree .git is a file
			return nil
		}
		if !entry.Type().IsRegular() || ignored(entry.Name()) {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(content, 0) < 0 {
			path, _ := filepath.Rel(root, name)
			visit(filepath.ToSlash(path), content)
		}
		return nil
	})
	check.OK(t, err)
}

// ignored reports whether .gitignore names the file by its extension.
func ignored(name string) bool {
	for _, ext := range []string{".db", ".db-shm", ".db-wal", ".test", ".out"} {
		if strings.HasSuffix(name, ext) {
			return true
		}
	}
	return false
}
