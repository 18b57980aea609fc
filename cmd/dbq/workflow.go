package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

func newWorkflow(a *app) *cobra.Command {
	var mermaid bool
	var limit int
	var cmd *cobra.Command
	cmd = a.command("dbq workflow", oneID, a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
		if err := clash(cmd.Flags(), "mermaid", "json"); err != nil {
			return err
		}
		id := uuid.MustParse(args[0])
		if of, _, err := workflow.Of(ctx, c, id); err == nil {
			id = of
		}
		info, err := workflow.Get(ctx, c, id, limit)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(info)
		case mermaid:
			_, err = io.WriteString(a.out, visibleLines(info.Mermaid()))
		default:
			err = stepListing(info).print(ctx, a, c, info.Steps)
		}
		if err == nil && info.Cut {
			a.note("there are more steps or needs: raise --limit")
		}
		return err
	}))
	l := cmd.Flags()
	l.BoolVar(&mermaid, "mermaid", false, "print a Mermaid flowchart")
	l.Var(intWithin(&limit, 1000, 1, workflow.MaxSteps), "limit", "read at most `N` tasks")
	return cmd
}

// stepListing lists the steps of a workflow.
func stepListing(info workflow.Info) listing[workflow.StepInfo] {
	const most = 3 // names of needs in a line
	names, needs := map[uuid.UUID]string{}, map[uuid.UUID][]string{}
	for _, s := range info.Steps {
		names[s.TaskID] = s.Name
	}
	for _, n := range info.Needs {
		needs[n.Child] = append(needs[n.Child], brief(names[n.Parent], 30))
	}
	return listing[workflow.StepInfo]{
		columns:   []string{"TASK", "QUEUE", "NAME", "STATE", "NEEDS"},
		rightFrom: 5,
		row: func(s workflow.StepInfo, _ time.Time) []string {
			of := needs[s.TaskID]
			text := strings.Join(of[:min(len(of), most)], ", ")
			if len(of) > most {
				text += fmt.Sprintf(" and %d more", len(of)-most)
			}
			if text == "" {
				text = "-"
			}
			return []string{s.TaskID.String(), s.Queue, brief(s.Name, 40), s.Status(), text}
		},
	}
}
