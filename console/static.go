package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
)

// staticFile is a style, script or icon as browsers get it.
type staticFile struct {
	name        string // with a hash of the content, so that a browser can keep the file for ever
	kind        string // the content type
	tag         string
	plain, gzip []byte
}

// staticKinds are the content types by the end of a name. Those of package mime depend on the machine.
var staticKinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// statics has the static files, each by its name with the hash and by that without it.
var statics = sync.OnceValue(func() map[string]*staticFile {
	files, err := fs.Glob(assets, "static/*")
	if err != nil {
		panic(err) // the pattern is constant
	}
	out := map[string]*staticFile{}
	for _, file := range files {
		content, err := assets.ReadFile(file)
		if err != nil {
			panic(err) // the file is part of the program
		}
		sum := sha256.Sum256(content)
		hash, name, ext := hex.EncodeToString(sum[:6]), path.Base(file), path.Ext(file)
		f := &staticFile{
			name: strings.TrimSuffix(name, ext) + "." + hash + ext, kind: staticKinds[ext], tag: `W/"` + hash + `"`,
			plain: content, gzip: compressed(content),
		}
		if f.kind == "" {
			panic(fmt.Sprintf("console: %s has no content type", file))
		}
		out[name], out[f.name] = f, f
	}
	return out
})

// staticPath returns the path of a static file.
func staticPath(prefix, name string) string {
	if f := statics()[name]; f != nil {
		name = f.name
	}
	return prefix + "/static/" + name
}

// otherHash matches the name of a file with the hash of another version of the program.
var otherHash = regexp.MustCompile(`\.[0-9a-f]{12}(\.[a-z]+)$`)

// staticFiles serves the styles, the scripts and the icons. They change only with the program.
func staticFiles() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/static/")
		f, kept := statics()[name], "no-cache" // a browser sends a request each time
		if f == nil {                          // another server may have sent the page, while they are upgraded in turn
			f = statics()[otherHash.ReplaceAllString(name, "$1")]
		} else if name == f.name {
			kept = "public, max-age=31536000, immutable"
		}
		if f == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Cache-Control", kept)
		if unchanged(w, r, f.tag) {
			return
		}
		respond(w, r, http.StatusOK, f.plain, f.gzip)
	})
}
