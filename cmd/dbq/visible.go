package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible returns a text on one line. It escapes, as in a Go string, every character that a terminal would act upon,
// hide or reorder: control characters including line ends, bidirectional and zero-width characters, and bytes that
// are not UTF-8. dbq passes everything that it prints for people through visible or visibleLines, because tasks, rows
// and errors can contain text from others.
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

// maxMarks limits the combining marks on one character: many of them would cover the lines above and below.
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

// isBlank reports whether a character counts as printable but shows nothing.
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

// visibleJSON escapes in a JSON text the characters that visible escapes. Such characters occur only in its strings.
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

// cellWidth returns the number of terminal cells of a visible text.
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
