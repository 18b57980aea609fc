package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag for a duration takes days and weeks.
func TestEveryDurationTakesDaysAndWeeks(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	seen := 0
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.(type) {
			case *durationFlag:
				seen++
				return
			}
			if strings.Contains(f.Value.Type(), "duration") && !cmd.Hidden {
				t.Errorf("%s --%s is a %T", cmd.CommandPath(), f.Name, f.Value)
			}
		})
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot(&app{}))
	if seen < 20 {
		t.Errorf("only %d flags for durations", seen)
	}
}
