package main

import "github.com/spf13/cobra"

// noArgs refuses arguments. hint says what may have been meant.
func noArgs(hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if hint != "" {
			hint = ": " + hint
		}
		return usagef("%q is not an argument of `%s`, which takes flags only%s", args[0], cmd.CommandPath(), hint)
	}
}

// subcommands is for a command that only has others below it.
func subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return usagef("`%s` has no command %q, only %s", cmd.CommandPath(), args[0], orList(names))
}
