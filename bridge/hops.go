package bridge

import (
	"encoding/json"
	"errors"
	"maps"
	"strconv"

	"github.com/dbq-go/dbq"
)

// HopsHeader is the header of a forwarded task that counts how often it was forwarded.
const HopsHeader = "dbq-hops"

// MaxHops is how often a task can be forwarded. Forwarders whose queues form a loop would otherwise never end.
const MaxHops = 10

// errLoop refuses a task that was forwarded too often.
var errLoop = errors.New("bridge: the task was forwarded " + strconv.Itoa(MaxHops) +
	" times: check whether its queues are forwarded in a loop")

// hopsOf returns how often a task was forwarded. A value that no Forwarder has set counts as none.
func hopsOf(t *dbq.Task) int {
	n, err := strconv.Atoi(t.Headers[HopsHeader])
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// farHeaders returns the headers of a task at the far side. Headers that leave no space for the counter have none.
func farHeaders(t *dbq.Task) map[string]string {
	out := maps.Clone(t.Headers)
	if out == nil {
		out = map[string]string{}
	}
	out[HopsHeader] = strconv.Itoa(hopsOf(t) + 1)
	if b, err := json.Marshal(out); err != nil || len(b) > dbq.MaxHeaders { // the far side would refuse the task
		return t.Headers
	}
	return out
}
