package main

import (
	"context"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version string            `json:"version"`
	Commit  string            `json:"commit,omitempty"`
	Go      string            `json:"go"`
	Schemes []string          `json:"dsn_schemes"`     // that this build supports
	Notes   map[string]string `json:"notes,omitempty"` // about schemes, such as that a dialect is not verified yet
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print dbq's version and the databases it was built for",
		Args:  noArgs(""),
		RunE: a.verb(func(context.Context, []string) error {
			v := readVersion()
			if a.json {
				return a.printJSON(v)
			}
			err := a.say("dbq %s, %s, DSNs: %s", v, v.Go, strings.Join(v.Schemes, ", "))
			for _, scheme := range slices.Sorted(maps.Keys(v.Notes)) {
				if err == nil {
					err = a.say("%s: %s", scheme, v.Notes[scheme])
				}
			}
			return err
		}),
	}
}

// String is the version with the commit it was built from.
func (v versionInfo) String() string {
	if v.Commit == "" {
		return v.Version
	}
	return v.Version + " (" + v.Commit + ")"
}

func readVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Schemes: dialect.Schemes(), Notes: map[string]string{}}
	for _, scheme := range v.Schemes {
		if d, err := dialect.Lookup(scheme); err == nil && d.Note != "" {
			v.Notes[scheme] = d.Note
		}
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}
