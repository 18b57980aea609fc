package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 2 * time.Second

// completeBy makes a completion from names in the database. It completes nothing when the database does not answer in time.
func (a *app) completeBy(names func(context.Context, *dbq.Client) ([]string, error)) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		if a.readDSNFile() != nil {
			return nil, nothing
		}
		c, err := a.open(ctx)
		if err != nil {
			return nil, nothing
		}
		defer c.Close()
		all, err := names(ctx, c)
		if err != nil {
			return nil, nothing
		}
		// A name that a terminal would act upon is not offered.
		all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, begin) || visible(name) != name })
		slices.Sort(all)
		return slices.Compact(all), nothing
	}
}

// queueNames are the queues with tasks or settings.
func queueNames(ctx context.Context, c *dbq.Client) (names []string, err error) {
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		names = append(names, q.Queue)
	}
	stats, err := c.Stats(ctx)
	for _, q := range stats {
		names = append(names, q.Queue)
	}
	return names, err
}

// workerNames are the workers in the registry.
func workerNames(ctx context.Context, c *dbq.Client) (names []string, err error) {
	workers, err := c.Workers(ctx)
	for _, w := range workers {
		names = append(names, w.ID)
	}
	return names, err
}

// completeQueueFlag completes --queue.
func (a *app) completeQueueFlag(cmd *cobra.Command) {
	// It fails only for a flag that is not there or has one already.
	if err := cmd.RegisterFlagCompletionFunc("queue", a.completeBy(queueNames)); err != nil {
		panic(err)
	}
}

// firstArg completes the first argument alone.
func firstArg(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begin)
	}
}
