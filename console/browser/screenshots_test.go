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
)

// screenshots is where TestScreenshots writes its pictures.
var screenshots = flag.String("screenshots", "", "write the screenshots of docs/console.md into this `folder`")

// pictures are those that the documentation shows.
var pictures = []string{"overview-light", "queue-dark", "queue-phone", "task-light"}

// ends are the elements with which the picture of a page ends. What follows is left out, and nothing is cut.
var ends = map[string]string{"overview": "[data-queues]", "queue": "#series", "task": "h2:nth-of-type(2) + pre + .note"}

// fit makes the window as high as what a picture shows: from the beginning of one element to the end of another one.
func (p *page) fit(width int64, from, to string) {
	p.t.Helper()
	const space = 16
	height := value[int64](p, fmt.Sprintf(`Math.ceil(document.querySelector(%q).getBoundingClientRect().bottom -
		document.querySelector(%q).getBoundingClientRect().top)`, to, from))
	p.do(chromedp.EmulateViewport(width, height+space),
		chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).scrollIntoView()`, from)))
}

// maxPicture is the size of a picture in the repository, in bytes.
const maxPicture = 150 << 10

// TestScreenshots checks the pages of dbq serve --demo, while its workers work. With -screenshots=../../docs/console it
// writes the pictures of docs/console.md.
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
	for name, path := range map[string]string{
		"overview": "", "queue": "queue?queue=mail&over=24h", "task": "task/" + poisoned.Tasks[0].ID.String(),
	} {
		for look, width := range map[string]int64{"light": 1080, "dark": 1080, "phone": 390} {
			colors := "light"
			if look == "dark" {
				colors = "dark"
			}
			p.do(chromedp.EmulateViewport(width, 820), scheme(colors), chromedp.Navigate(p.url+path))
			from := "body"
			if name == "queue" {
				p.do(chromedp.WaitVisible(chromedp.CSS("figure.plot canvas")))
				if look == "phone" { // below the figures
					from = "#series"
				}
			}
			p.fit(width, from, ends[name])
			p.clean(name + "-" + look)
			picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if len(picture) > maxPicture {
				t.Errorf("%s-%s.png has %d bytes, over %d", name, look, len(picture), maxPicture)
			}
			if *screenshots == "" || !slices.Contains(pictures, name+"-"+look) {
				continue
			}
			if err := os.WriteFile(filepath.Join(*screenshots, name+"-"+look+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
