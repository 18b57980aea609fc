//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// A database that dbq makes is its owner's, with the files beside it; one that is there keeps its mode.
func TestNewFilesArePrivate(t *testing.T) {
	t.Parallel()
	mode := func(path string) os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	for _, c := range []struct{ before, want os.FileMode }{{0, 0o600}, {0o640, 0o640}} {
		path := filepath.Join(t.TempDir(), "q.db")
		if c.before != 0 {
			if err := os.WriteFile(path, nil, c.before); err != nil {
				t.Fatal(err)
			}
		}
		pool, err := Open(t.Context(), "sqlite:"+path)
		if err != nil {
			t.Fatal(err)
		}
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
