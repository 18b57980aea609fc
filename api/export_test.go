package api

// What the tests of this package use.
var (
	ProblemOf = problemOf
	Sign      = sign
	Verify    = verify
	ParseLine = parseLine
)
