package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
)

// headBuffer keeps the begin of what a program writes, so that an endless one does not fill the memory. What fits is
// left to dbq to cut.
type headBuffer struct {
	kept  []byte
	total int
}

const headLimit = 64 << 10

func (b *headBuffer) Write(p []byte) (int, error) {
	b.total += len(p)
	b.kept = append(b.kept, p[:min(len(p), headLimit-len(b.kept))]...)
	return len(p), nil
}

// result is the output, or its begin and how long it was.
func (b *headBuffer) result() []byte {
	if b.total <= len(b.kept) {
		return b.kept
	}
	note := fmt.Sprintf(" … [cut from %d bytes]", b.total)
	end := dbq.MaxResult - len(note)
	for end > dbq.MaxResult-len(note)-utf8.UTFMax && !utf8.RuneStart(b.kept[end]) {
		end--
	}
	return append(b.kept[:end:end], note...)
}

// tailBuffer keeps the end of what a program writes: of an error the last lines tell the most.
type tailBuffer struct {
	kept []byte
	cut  bool
}

// tailLimit leaves room for the exit code within what dbq keeps of an error.
const tailLimit = dbq.MaxResult - 200

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	if over := len(b.kept) - tailLimit; over > 0 {
		b.kept = append(b.kept[:0], b.kept[over:]...)
		b.cut = true
	}
	return len(p), nil
}

func (b *tailBuffer) String() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(b.kept), "\uFFFD"))
	if b.cut {
		text = "… " + text
	}
	return text
}
