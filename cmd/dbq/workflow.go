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
	var mermaid, dot bool
	var limit int
	var cmd *cobra.Command
	cmd = a.command("dbq workflow", oneID, a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
		if err := clash(cmd.Flags(), "mermaid", "dot", "json"); err != nil {
			return err
		}
		id := uuid.MustParse(args[0])
		if of, _, err := workflow.Of(ctx, c, id); err == nil {
			id = of
		}
		g, err := workflow.Get(ctx, c, id, limit)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(g)
		case mermaid:
			_, err = io.WriteString(a.out, visibleLines(g.Mermaid()))
		case dot:
			_, err = io.WriteString(a.out, visibleLines(g.DOT()))
		default:
			err = nodeListing(g).print(ctx, a, c, g.Nodes)
		}
		if err == nil && g.Cut {
			a.note("there are more tasks or needs: raise --limit")
		}
		return err
	}))
	l := cmd.Flags()
	l.BoolVar(&mermaid, "mermaid", false, "print a Mermaid flowchart")
	l.BoolVar(&dot, "dot", false, "print a graph for Graphviz")
	l.Var(intWithin(&limit, 1000, 1, workflow.MaxSteps), "limit", "read at most `N` tasks")
	return cmd
}

// nodeListing lists the tasks of a workflow.
func nodeListing(g workflow.Graph) listing[workflow.Node] {
	const most = 3 // names of needs in a line
	names, needs := map[uuid.UUID]string{}, map[uuid.UUID][]string{}
	for _, n := range g.Nodes {
		names[n.Task] = n.Name
	}
	for _, e := range g.Edges {
		needs[e.Child] = append(needs[e.Child], brief(names[e.Parent], 30))
	}
	return listing[workflow.Node]{
		columns:   []string{"TASK", "QUEUE", "NAME", "STATE", "NEEDS"},
		rightFrom: 5,
		row: func(n workflow.Node, _ time.Time) []string {
			of := needs[n.Task]
			text := strings.Join(of[:min(len(of), most)], ", ")
			if len(of) > most {
				text += fmt.Sprintf(" and %d more", len(of)-most)
			}
			if text == "" {
				text = "-"
			}
			return []string{n.Task.String(), n.Queue, brief(n.Name, 40), n.Status(), text}
		},
	}
}
