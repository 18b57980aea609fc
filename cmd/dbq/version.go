package main

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version string            `json:"version"`
	Go      string            `json:"go"`
	Schemes []string          `json:"dsn_schemes"`     // that this build supports
	Notes   map[string]string `json:"notes,omitempty"` // about schemes, such as that a dialect is not verified yet
}

func newVersion(a *app) *cobra.Command {
	return a.command("dbq version", noArgs(""), func(context.Context, []string) error {
		v := readVersion()
		err := a.result(v, "dbq %s, %s, DSNs: %s", v.Version, v.Go, strings.Join(v.Schemes, ", "))
		for _, scheme := range slices.Sorted(maps.Keys(v.Notes)) {
			if err == nil && !a.json {
				err = a.say("%s: %s", scheme, v.Notes[scheme])
			}
		}
		return err
	})
}

func readVersion() versionInfo {
	v := versionInfo{dbq.Version(), runtime.Version(), dialect.Schemes(), map[string]string{}}
	for _, scheme := range v.Schemes {
		if d, err := dialect.Lookup(scheme); err == nil && d.Note != "" {
			v.Notes[scheme] = d.Note
		}
	}
	return v
}
