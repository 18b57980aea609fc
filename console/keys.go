package console

import (
	"net/http"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

// keysShown is how many keys the page of a queue's keys shows.
const keysShown = 100

// keysPage shows the keys of a queue with the most running and waiting tasks, and the reason why each waits.
func (c *Console) keysPage(v *visit) error {
	queue := v.named("queue")
	if err := v.need(auth.Read, queue); err != nil {
		return err
	}
	if queue == "" {
		return errNoPage
	}
	list, err := v.db.admin.Keys(v.ctx(), queue)
	if err != nil {
		return err
	}
	page := struct {
		Queue    string
		Why      admin.Verdict
		Limits   admin.QueueLimits
		Rows     []admin.KeyInfo
		Keys     int
		Leased   int  // tasks that run, with and without a key
		More     bool // not all tasks were read
		Sequence bool // the tasks of a key run one after the other
	}{Queue: queue, Limits: list.Limits, Keys: len(list.Keys), Leased: list.Running, More: list.More,
		Sequence: list.Limits.Order != admin.OrderNone}
	page.Rows = list.Keys[:min(page.Keys, keysShown)]
	if page.Why, err = v.why(queue, time.Time{}); err != nil {
		return err
	}
	v.show(http.StatusOK, "keys", "Keys of "+queue, page)
	return nil
}
