package engines

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/dbq-go/dbq/conformance"
)

// writeReport puts a target's report into a directory, as JSON and text.
func writeReport(dir string, t target, rep conformance.Report) error {
	var data, text bytes.Buffer
	if err := rep.WriteJSON(&data); err != nil {
		return err
	}
	if err := rep.WriteText(&text); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, t.name+".json"), data.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, t.name+".txt"), text.Bytes(), 0o644)
}
