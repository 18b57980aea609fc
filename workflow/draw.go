package workflow

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

var mermaidText = strings.NewReplacer(`"`, "#quot;", "&", "&amp;", "<", "&lt;", ">", "&gt;")

// Mermaid returns the workflow as a Mermaid flowchart.
func (i Info) Mermaid() string {
	b := strings.Builder{}
	b.WriteString("flowchart TD\n")
	index := map[uuid.UUID]int{}
	for n, s := range i.Steps {
		index[s.TaskID] = n
		fmt.Fprintf(&b, "  n%d[\"%s<br/>%s\"]\n", n, mermaidText.Replace(s.Name), s.Status())
	}
	arrows := map[OnFailure]string{CancelStep: "-->", WaitStep: "-- wait -->", IgnoreFailure: "-. ignore .->"}
	for _, n := range i.Needs {
		parent, known := index[n.Parent]
		if child, ok := index[n.Child]; ok && known && arrows[n.OnFailure] != "" {
			fmt.Fprintf(&b, "  n%d %s n%d\n", parent, arrows[n.OnFailure], child)
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
