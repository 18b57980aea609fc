package dbq

import (
	"runtime/debug"
	"sync"
)

// modulePath is this module's.
const modulePath = "github.com/dbq-go/dbq"

// Version is the version of dbq that the program was built with, such as v1.2.3, or "devel" when the program was built
// in dbq's own repository or by a build that does not record it.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
})
