package console

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// Bounds of one page of a search for a text. It reads the next tasks by their ids until a page is full or a bound is
// reached; the page then shows how far it searched, and the next one continues there.
const (
	searchRows     = 2_000 // tasks whose error or result is compared
	searchPayloads = 200   // tasks whose payload is read, each by a statement of its own
	searchBytes    = 32 << 20
	searchTime     = 5 * time.Second
)

// found is a page of a list.
type found struct {
	tasks  []dbq.Task // with the parts hidden that the user must not see
	last   uuid.UUID  // the next page begins after it
	more   bool
	looked int       // tasks that were searched for a text
	upto   time.Time // of the last task that was looked at, if the page ended there and is not full
}

// searches reports whether a selection has a text, which no index has.
func (s selection) searches() bool { return s.Error != "" || s.Text != "" || s.Alike != "" }

// maySearch refuses a search for a text in all tasks, and by users who may not see it: matches would reveal it.
func (v *visit) maySearch(s selection) error {
	switch {
	case !s.searches():
		return nil
	case !v.user.Payloads:
		return errForbidden
	case s.Queue == "" || s.State == "":
		return formError("to search for a text, choose a queue and a state: the search reads the tasks of these")
	case s.Text != "" && s.Order == "archive":
		return formError("the payloads of the archive cannot be searched")
	}
	return nil
}

// search returns a page of the tasks of a selection, with up to most tasks. For a text, it compares the parts of each
// task that this user sees.
func (s selection) search(ctx context.Context, d *database, f admin.Filter,
	read func(context.Context, admin.Filter) (admin.Page, error), most int) (out found, err error) {
	if !s.searches() {
		f.Limit = most
		page, err := read(ctx, f)
		out = found{tasks: page.Tasks, more: page.More, last: page.Next, upto: page.Upto}
		for i := range out.tasks {
			d.redact.Task(&out.tasks[i])
		}
		return out, err
	}
	if f.Limit = searchRows; s.Error == "" && s.Alike == "" {
		f.Limit = searchPayloads
	}
	page, err := read(ctx, f)
	if err != nil {
		return out, err
	}
	all := page.Tasks
	begin, payloads, size, alike := time.Now(), 0, 0, patternOf(s.Alike)
	for i, t := range all {
		out.last, out.looked = t.ID, i+1
		result := hidden(d, t).Result
		matches := contains(result, s.Error) &&
			(s.Alike == "" || t.Kind == s.Kind && patternOf(firstLine(result)) == alike)
		if matches && s.Text != "" {
			payloads++
			whole, err := d.client.Get(ctx, t.ID)
			if err != nil && !errors.Is(err, dbq.ErrNotFound) { // it may have been removed meanwhile
				return out, err
			}
			size += len(whole.Payload)
			matches = err == nil && whole.Queue == t.Queue && contains(hidden(d, whole).Payload, s.Text)
		}
		if matches {
			out.tasks = append(out.tasks, hidden(d, t))
		}
		if len(out.tasks) == most || payloads == searchPayloads || size >= searchBytes ||
			time.Since(begin) >= searchTime {
			break
		}
	}
	if out.more = out.looked < len(all) || page.More; out.looked == len(all) && page.More {
		if out.last = page.Next; len(all) == 0 {
			out.upto = page.Upto
		}
	}
	return out, nil
}

// hidden returns a task without the parts that the rules of its database hide.
func hidden(d *database, t dbq.Task) dbq.Task {
	d.redact.Task(&t)
	return t
}

// contains reports whether a text contains another one, in any case of letters.
func contains(in []byte, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(string(in)), strings.ToLower(text))
}
