// Command gen writes what the documentation takes from the code: the pages on the state machine, the conformance suite
// and each engine's SQL, and blocks of pages that are otherwise written by hand. Run it with go generate ./... in the
// module's root folder. TestGenerated fails when a page is out of date.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dbq-go/dbq/conformance/cases"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// pages returns the contents of the generated files by path. Paths are relative to root, the module's folder.
func pages(root string) (map[string]string, error) {
	states, err := statesPage(filepath.Join(root, "state", "state.go"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{"docs/states.md": states, "docs/conformance.md": cases.Markdown()}
	for _, d := range engines {
		text, err := sqlPage(d)
		if err != nil {
			return nil, err
		}
		out["docs/sql/"+d.Name()+".sql"] = text
	}
	if err := fillPages(root, out); err != nil {
		return nil, err
	}
	return out, nil
}

// fillPages adds the pages that are written by hand and have generated blocks: tables, the diagram, and code.
func fillPages(root string, out map[string]string) error {
	reports, err := readReports(filepath.Join(root, "docs", "reports"))
	if err != nil {
		return err
	}
	for path, tables := range map[string]map[string]string{
		"README.md":               {"states": diagram(usual, false)},
		"docs/engines.md":         {"reports": reportTable(reports)},
		"docs/getting-started.md": nil,
		"docs/dialect.md":         nil,
	} {
		page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		text, err := fillCode(string(page), root)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for name, table := range tables {
			if text, err = fillTable(text, name, table); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		out[path] = text
	}
	return nil
}

func write(root string) error {
	out, err := pages(root)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(out)) {
		name := filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(out[path]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
