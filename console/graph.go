package console

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// graph is a workflow as a drawing: each step is in the column after those that it needs.
type graph struct {
	Width, Height int
	Nodes         []graphNode
	Edges         []graphEdge
	Cut           bool // the workflow has more steps than are drawn
}

// graphNode is a step. X and Y are its upper left corner.
type graphNode struct {
	stepRow
	X, Y  int
	Label string // the name, cut to the width of the box
	Here  bool   // the task of this page
	order float64
}

// graphEdge is a line from a step to one that needs it.
type graphEdge struct {
	Path string
	Met  bool
}

// The size of a step's box, the distances of boxes, and the longest name that fits; see templates/parts.html.
const (
	nodeWidth, nodeHeight = 150, 44
	nodeRight, nodeBelow  = 210, 60
	nodeMargin            = 6
	nodeLabel             = 20
)

// graphOf draws the steps of a workflow, of which one may be the task of the page.
func graphOf(w workflow.Info, here uuid.UUID) graph {
	g := graph{Cut: w.Cut}
	at := map[uuid.UUID]int{} // of a task, in Nodes
	for _, row := range stepsOf(w) {
		at[row.TaskID] = len(g.Nodes)
		label := []rune(row.Name)
		if len(label) > nodeLabel {
			label = append(label[:nodeLabel-1], '…')
		}
		g.Nodes = append(g.Nodes, graphNode{stepRow: row, Label: string(label), Here: row.TaskID == here})
	}
	parents := map[int][]int{}
	for _, n := range w.Needs {
		from, known := at[n.Parent]
		if to, ok := at[n.Child]; ok && known {
			parents[to] = append(parents[to], from)
		}
	}
	var columns [][]int
	for i, n := range g.Nodes {
		for len(columns) < n.Level {
			columns = append(columns, nil)
		}
		columns[n.Level-1] = append(columns[n.Level-1], i)
	}
	for x, column := range columns {
		for _, i := range column { // beside the middle of those that it needs, so that fewer lines cross
			for _, p := range parents[i] {
				g.Nodes[i].order += float64(g.Nodes[p].Y) / float64(len(parents[i]))
			}
		}
		slices.SortStableFunc(column, func(a, b int) int { return cmp.Compare(g.Nodes[a].order, g.Nodes[b].order) })
		for y, i := range column {
			n := &g.Nodes[i]
			n.X, n.Y = nodeMargin+x*nodeRight, nodeMargin+y*nodeBelow
			g.Width, g.Height = max(g.Width, n.X+nodeWidth+nodeMargin), max(g.Height, n.Y+nodeHeight+nodeMargin)
		}
	}
	for _, n := range w.Needs {
		from, known := at[n.Parent]
		to, ok := at[n.Child]
		if !known || !ok {
			continue
		}
		a, b := g.Nodes[from], g.Nodes[to]
		x1, y1, x2, y2 := a.X+nodeWidth, a.Y+nodeHeight/2, b.X, b.Y+nodeHeight/2
		middle := (nodeRight - nodeWidth) / 2
		g.Edges = append(g.Edges, graphEdge{
			fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+middle, y1, x2-middle, y2, x2, y2), n.Met,
		})
	}
	return g
}

// stepsOf returns the steps of a workflow with their needs.
func stepsOf(w workflow.Info) (rows []stepRow) {
	at := map[uuid.UUID]int{} // of a task, in rows
	for _, s := range w.Steps {
		at[s.TaskID] = len(rows)
		rows = append(rows, stepRow{StepInfo: s, Level: 1})
	}
	needs := map[uuid.UUID][]uuid.UUID{}
	for _, n := range w.Needs {
		needs[n.Child] = append(needs[n.Child], n.Parent)
	}
	for i := range rows { // a step comes after those that it needs
		row := &rows[i]
		for _, parent := range needs[row.TaskID] {
			if from, known := at[parent]; known {
				row.Needs = append(row.Needs, rows[from].Name)
				row.Level = max(row.Level, rows[from].Level+1)
			}
		}
	}
	return rows
}
