package workflow

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Mermaid returns the workflow as a Mermaid flowchart.
func (i Info) Mermaid() string {
	return i.draw("flowchart TD\n", "  n%d[\"%s<br/>%s\"]\n",
		strings.NewReplacer(`"`, "#quot;", "&", "&amp;", "<", "&lt;", ">", "&gt;"), map[OnFailure]string{
			CancelStep: "  n%d --> n%d\n", WaitStep: "  n%d -- wait --> n%d\n", IgnoreFailure: "  n%d -. ignore .-> n%d\n"})
}

// DOT returns the workflow in the language of Graphviz.
func (i Info) DOT() string {
	return i.draw("digraph workflow {\n  node [shape=box];\n", "  n%d [label=\"%s\\n%s\"];\n",
		strings.NewReplacer(`\`, `\\`, `"`, `\"`), map[OnFailure]string{
			CancelStep: "  n%d -> n%d;\n", WaitStep: "  n%d -> n%d [label=\"wait\"];\n",
			IgnoreFailure: "  n%d -> n%d [style=dashed, label=\"ignore\"];\n"}) + "}\n"
}

// draw returns the workflow as lines of text: a header, each step, and each need between them.
func (i Info) draw(header, step string, quote *strings.Replacer, needs map[OnFailure]string) string {
	b := strings.Builder{}
	b.WriteString(header)
	index := map[uuid.UUID]int{}
	for n, s := range i.Steps {
		index[s.Task] = n
		fmt.Fprintf(&b, step, n, quote.Replace(s.Name), s.Status())
	}
	for _, n := range i.Needs {
		parent, known := index[n.Parent]
		if child, ok := index[n.Child]; ok && known && needs[n.OnFailure] != "" {
			fmt.Fprintf(&b, needs[n.OnFailure], parent, child)
		}
	}
	return b.String()
}

// Status returns the step's state as people read it, with how many tasks it waits for.
func (s StepInfo) Status() string {
	switch {
	case s.State == state.None:
		return "COMPLETED, removed"
	case s.Cancelled:
		return s.State.String() + ", cancelled"
	case s.WaitsFor > 0:
		return fmt.Sprintf("%v, waits for %d", s.State, s.WaitsFor)
	}
	return s.State.String()
}
