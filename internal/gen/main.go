// Command gen writes the pages of docs that follow from the code, so that they cannot say anything else than it does: the state
// machine, the conformance suite's laws and each engine's SQL; and the table of README.md and the code of docs/dialect.md, whose other
// sentences are written by hand. It runs in the module's root folder: go generate ./...
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dbq-go/dbq/conformance"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// pages are the generated files' contents by their path below root, which is the module's folder.
func pages(root string) (map[string]string, error) {
	states, err := statesPage(filepath.Join(root, "state", "state.go"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{"docs/states.md": states, "docs/conformance.md": conformance.Markdown()}
	for _, d := range engines {
		text, err := sqlPage(d)
		if err != nil {
			return nil, err
		}
		out["docs/sql/"+d.Name()+".sql"] = text
	}
	if out["README.md"], err = readme(root); err != nil {
		return nil, fmt.Errorf("README.md: %w", err)
	}
	if out["docs/dialect.md"], err = dialectPage(root); err != nil {
		return nil, fmt.Errorf("docs/dialect.md: %w", err)
	}
	return out, nil
}

// readme is README.md with its table of reports.
func readme(root string) (string, error) {
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return "", err
	}
	reports, err := readReports(filepath.Join(root, "docs", "reports"))
	if err != nil {
		return "", err
	}
	return fillTable(string(page), "reports", reportTable(reports))
}

// dialectPage is docs/dialect.md with the code of examples/acme.
func dialectPage(root string) (string, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "dialect.md"))
	if err != nil {
		return "", err
	}
	return fillCode(string(page), root)
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
