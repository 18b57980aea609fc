package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible is a text on one line, with everything in it that a terminal would act upon, hide or turn around written out
// as in a Go string: control characters with line ends, bidirectional and zero-width characters, bytes that are not
// UTF-8. Everything that dbq prints for people passes through it, or through visibleLines, since tasks, rows and errors
// come from others.
func visible(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	marks := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		}
		switch {
		case unicode.IsPrint(r) && !isBlank(r) && marks <= maxMarks && (r != utf8.RuneError || size > 1):
			b.WriteString(text[i : i+size])
		default:
			b.WriteString(strings.Trim(strconv.QuoteToASCII(text[i:i+size]), `"`))
		}
		i += size
	}
	return b.String()
}

// maxMarks bounds the accents on one character: a heap of them would cover the lines around.
const maxMarks = 2

// isPlain reports whether a text is ASCII that can be printed.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// isBlank reports whether a character counts as printable and shows nothing.
func isBlank(r rune) bool {
	switch r {
	// Hangul fillers, an empty braille cell, the grapheme joiner
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800', '\u034f':
		return true
	}
	return unicode.Is(unicode.Variation_Selector, r)
}

// visibleLines is visible for a text of several lines, such as a report or an SQL script: line ends and tabs stay.
func visibleLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		for i, cell := range strings.Split(line, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(visible(cell))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// visibleJSON escapes in a JSON text what visible would write out. Such characters can only be within its strings.
func visibleJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidesInJSON) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !hidesInJSON(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.Bytes()
}

func hidesInJSON(r rune) bool { return r >= 0x7f && (!unicode.IsPrint(r) || isBlank(r)) }

// cellWidth is how many cells of a terminal a visible text takes.
func cellWidth(text string) int {
	if isPlain(text) {
		return len(text)
	}
	n := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case isWide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

// wide are the ranges of wide characters that belong to no script: full-width forms and emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x3000, 0x303e, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1}},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f900, 0x1f9ff, 1}, {0x1fa70, 0x1faff, 1}},
}

// isWide reports whether a character takes two cells: those of East Asian scripts, full-width forms and emoji.
func isWide(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi, wide) ||
		unicode.Is(unicode.Hangul, r) && (r < 0x1160 || r >= 0x3000) && r < 0xffa0
}
