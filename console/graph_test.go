package console_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/workflow"
)

// TestWorkflowIsDrawn draws a diamond: each step is right of those that it needs, and a link.
func TestWorkflowIsDrawn(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	w, err := workflow.Enqueue(t.Context(), s.client, []workflow.Step{
		{Name: "charge", Queue: "bills"}, {Name: "pack <b>", Queue: "mail", Needs: []string{"charge"}},
		{Name: "print", Queue: "mail", Needs: []string{"charge"}},
		{Name: "ship", Queue: "mail", Needs: []string{"pack <b>", "print"}},
	})
	check.OK(t, err)
	page := s.live(s.get(200, "/db/shop/workflow/"+w.ID.String()))
	boxes := regexp.MustCompile(`<a href="/db/shop/task/([^"]+)" class="step s-waiting[^>]*><title>([^<]+): [^<]*</title>`+
		`<rect class="box" x="(\d+)" y="(\d+)"`).FindAllStringSubmatch(page, -1)
	at := map[string]string{}
	var charge string
	for _, b := range boxes {
		at[b[2]] = b[3] + " " + b[4]
		if b[2] == "charge" {
			charge = b[1]
		}
	}
	for name, want := range map[string]string{
		"charge": "6 6", "pack &lt;b&gt;": "216 6", "print": "216 66", "ship": "426 6",
	} {
		if at[name] != want {
			t.Errorf("%s is at %q, want %q", name, at[name], want)
		}
	}
	if n := strings.Count(page, "<path d="); n != 4 {
		t.Errorf("%d needs are drawn, want 4", n)
	}
	s.hides(page, "more steps than")
	s.shows(s.get(200, "/db/shop/task/"+charge), "here", `aria-current="true"><title>charge: `, `<title>ship: `)

	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"bills"}}}, "")
	bob.hides(bob.get(200, "/db/shop/task/"+charge), `<title>ship: `)
}

func TestDrawingOfALargeWorkflowIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	var steps []workflow.Step
	for i := range 201 {
		steps = append(steps, workflow.Step{Name: fmt.Sprint("step ", i), Queue: "mail"})
	}
	w, err := workflow.Enqueue(t.Context(), s.client, steps)
	check.OK(t, err)
	page := s.get(200, "/db/shop/workflow/"+w.ID.String())
	s.shows(page, "The workflow has more steps than the 200 that are drawn.")
	if n := strings.Count(page, `<rect class="box"`); n != 200 {
		t.Errorf("%d steps are drawn, want 200", n)
	}
	alone := s.enqueue("mail", dbq.NewTask{})
	s.hides(s.get(200, taskPath(alone)), `class="graph"`)
}

// TestChangesOfAWorkflowAreConfirmed counts the tasks before a workflow is cancelled and retried.
func TestChangesOfAWorkflowAreConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	w, err := workflow.Enqueue(t.Context(), s.client, []workflow.Step{
		{Name: "charge", Queue: "bills"}, {Name: "ship", Queue: "mail", Needs: []string{"charge"}},
	})
	check.OK(t, err)
	path := "/db/shop/workflow/" + w.ID.String()
	s.shows(s.get(200, path), path+"/cancel", "Next: <a href=", ">charge</a> in bills.")
	s.hides(s.get(200, path), path+"/retry")
	s.shows(s.get(200, path+"/retry"), "Nothing to retry")
	s.shows(s.get(200, path+"/cancel"), "Cancel 2 tasks of the workflow?", `name="reason"`)
	s.shows(s.get(200, path), "State CREATED", "Waits for 1") // the question changes nothing
	s.post(303, path+"/cancel", "reason", "ordered twice")
	s.shows(s.get(200, path+"/cancel"), "Nothing to cancel")
	s.shows(s.get(200, path), path+"/retry")
	s.shows(s.get(200, path+"/retry"), "Retry 2 tasks of the workflow?")
	s.get(404, path+"/complete")

	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer}}, "")
	bob.get(403, path+"/cancel")
	bob.hides(bob.get(200, path), path+"/cancel")
}
