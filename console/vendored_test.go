package console

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// TestVendoredFilesAreUnchanged compares the files of other projects with static/vendored.txt.
func TestVendoredFilesAreUnchanged(t *testing.T) {
	t.Parallel()
	list, err := fs.ReadFile(assets, "static/vendored.txt")
	check.OK(t, err)
	files, err := fs.Glob(assets, "static/*.min.*")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files are minified, want 3: %v", len(files), err)
	}
	for _, file := range files {
		content, err := fs.ReadFile(assets, file)
		check.OK(t, err)
		if line := fmt.Sprintf("\n%x  %s\n", sha256.Sum256(content), path.Base(file)); !strings.Contains(string(list), line) {
			t.Errorf("vendored.txt lacks the line%s", line)
		}
		project, _, _ := strings.Cut(path.Base(file), ".")
		if license := project + ".LICENSE.txt"; !strings.Contains(string(list), license) {
			t.Errorf("vendored.txt does not name %s", license)
		} else if _, err := fs.Stat(assets, "static/"+license); err != nil {
			t.Error(err)
		}
	}
}
