package main

import (
	"os"
	"strings"
)

// style is how a terminal shows a text, as the parameters of its escape sequence; "" is plain.
type style string

const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// wantsColour reports whether to use styles on a stream: on a terminal that has them, unless NO_COLOR is set (https://no-color.org).
func wantsColour(stream any) bool {
	return isTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// apply puts the style around a text that is visible already.
func (s style) apply(text string) string {
	if s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// wordStyles are those of words that say how things are.
var wordStyles = map[string]style{
	"COMPLETED": green, "PROCESSING": cyan, "ERROR": yellow, "POISON": red,
	"running": green, "paused": yellow, "stopping": yellow, "silent": red,
}

// styleOf is the style of a cell, by its first word.
func styleOf(cell string) style {
	word, _, _ := strings.Cut(cell, " ")
	return wordStyles[word]
}
