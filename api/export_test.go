package api

// What the tests of this package use.
var (
	ProblemOf = problemOf
	Sign      = sign
	Verify    = verify
	ParseLine = parseLine
)

// HoldSeries takes all places for series, until free is called.
func HoldSeries(a *API) (free func()) {
	for range cap(a.reading) {
		a.reading <- struct{}{}
	}
	return func() {
		for range cap(a.reading) {
			<-a.reading
		}
	}
}
