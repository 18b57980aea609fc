package kit

import (
	"strconv"
	"strings"
)

// AtLeast reports whether a version such as "3.42.0" is major.minor or later. It is false for a text that is none.
func AtLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}
