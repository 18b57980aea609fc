package conformance

import (
	"slices"

	"github.com/dbq-go/dbq/dialect"
)

// Short selects the cases that check a change within minutes: under the server's default strategy all that are not slow
// and not in the group Faults, and a few that stand for the others. It is a Harness.Select.
func Short(c Case, strategy, best dialect.Strategy) bool {
	switch {
	case strategy != best:
		return strategy == dialect.CAS && slices.Contains(shortCAS, c.FullName())
	case c.Group == "Faults":
		return slices.Contains(shortFaults, c.FullName())
	}
	return !c.Slow
}

// shortFaults stand for the group Faults: each way in which an answer is lost, before and after the server acted.
var shortFaults = []string{
	"Faults/AnswerLostToCheckout", "Faults/AnswerLostToSettle", "Faults/CutBeforeEnqueueMany",
	"Faults/CancelledWhileRunning",
}

// shortCAS stand for the strategy that has a form on each engine, where it is not the default.
var shortCAS = []string{
	"Checkout/AtMostN", "Checkout/PriorityFirst", "Checkout/NewTokenEachTime", "Lease/ExpiredIsRedelivered",
	"Contention/NoDoubleDelivery",
}
