package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/sample"
	"github.com/dbq-go/dbq/workflow"
)

// screenshots is where TestScreenshots writes its pictures.
var screenshots = flag.String("screenshots", "", "write the screenshots of docs/console.md into this `folder`")

// pictures are those that the documentation shows.
var pictures = []string{
	"overview-light", "overview-phone", "queue-light", "queue-dark", "queue-phone", "task-light", "tasks-light",
	"poison-light", "schedules-light", "workers-dark", "workflow-light", "audit-light",
}

// ends are the elements with which the picture of a page ends, if it does not end with its contents.
var ends = map[string]string{"overview": "[data-queues]", "queue": "#series", "task": "#payload"}

// fit makes the window as high as what a picture shows: from the beginning of one element to the end of another one,
// as far as a screen shows it.
func (p *page) fit(width int64, from, to string) {
	p.t.Helper()
	const space, screen = 16, 900
	height := value[int64](p, fmt.Sprintf(`Math.ceil(document.querySelector(%q).getBoundingClientRect().bottom -
		document.querySelector(%q).getBoundingClientRect().top)`, to, from))
	p.do(chromedp.EmulateViewport(width, min(height+space, screen)),
		chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).scrollIntoView()`, from)))
}

// maxPicture is the size of a picture in the repository, in bytes.
const maxPicture = 200 << 10

// wide is the width of a picture that is not one of a phone: all columns have a place.
const wide = 1280

// TestScreenshots takes pictures of the pages of dbq serve --demo, while its workers work, and checks them. With
// -screenshots=../../docs/console it writes them: docs/console.md shows them.
func TestScreenshots(t *testing.T) {
	p := open(t)
	c := dbqtest.New(t, dbq.WithName("shop")).Client // no name of this machine in a picture
	if err := sample.Fill(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sample.Run(ctx, c) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	poisoned, err := admin.New(c).List(t.Context(),
		admin.Filter{Queue: "mail", States: []dbq.State{dbq.StatePoison}, Limit: 1})
	if err != nil || len(poisoned.Tasks) != 1 {
		t.Fatalf("%d tasks are in POISON: %v", len(poisoned.Tasks), err)
	}
	p.serve(console.Config{Databases: map[string]*dbq.Client{"shop": c}, Authenticator: auth.Loopback{}})
	orders, err := admin.New(c).List(t.Context(), admin.Filter{Queue: "orders", Kind: "charge", Limit: 1})
	if err != nil || len(orders.Tasks) != 1 {
		t.Fatalf("%d steps charge: %v", len(orders.Tasks), err)
	}
	order, _, err := workflow.Of(t.Context(), c, orders.Tasks[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"overview": "", "queue": "queue?queue=webhooks&over=24h", "task": "task/" + poisoned.Tasks[0].ID.String(),
		"tasks": "tasks?queue=mail", "poison": "poison?queue=mail", "schedules": "schedules", "workers": "workers",
		"workflow": "workflow/" + order.String(), "audit": "audit",
	} {
		for _, look := range looks {
			if !slices.Contains(pictures, name+"-"+look.name) {
				continue
			}
			width := max(look.width, wide)
			if look.width == phone {
				width = phone
			}
			p.do(chromedp.EmulateViewport(width, 820), scheme(look.colors), chromedp.Navigate(p.url+path))
			from := "body"
			if name == "queue" {
				p.do(chromedp.WaitVisible(chromedp.CSS("figure.plot canvas")))
				if look.name == "phone" { // below the figures
					from = "#series"
				}
			}
			end := "main"
			if ends[name] != "" {
				end = ends[name]
			}
			p.fit(width, from, end)
			p.clean(name + "-" + look.name)
			picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if len(picture) > maxPicture {
				t.Errorf("%s-%s.png has %d bytes, over %d", name, look.name, len(picture), maxPicture)
			}
			if *screenshots == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(*screenshots, name+"-"+look.name+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
