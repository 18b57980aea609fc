//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// A database that dbq makes is its owner's, with the files beside it; one that is there keeps its mode.
func TestNewFilesArePrivate(t *testing.T) {
	t.Parallel()
	mode := func(path string) os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		check.OK(t, err)
		return info.Mode().Perm()
	}
	for _, c := range []struct{ before, want os.FileMode }{{0, 0o600}, {0o640, 0o640}} {
		path := filepath.Join(t.TempDir(), "q.db")
		if c.before != 0 {
			check.OK(t, os.WriteFile(path, nil, c.before))
		}
		pool, err := Open(t.Context(), "sqlite:"+path, nil)
		check.OK(t, err)
		if _, err := pool.Write.ExecContext(t.Context(), "CREATE TABLE kept (x)"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if got := mode(name); got != c.want {
				t.Errorf("%s has the mode %o, want %o", filepath.Base(name), got, c.want)
			}
		}
		pool.Close()
	}
}
