package console

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/dbq-go/dbq/auth"
)

// taskFile sends the payload, the result or the progress of a task as a file. With as=text, the browser shows it.
func (c *Console) taskFile(v *visit) error {
	t, err := v.task(auth.Read)
	if err != nil {
		return err
	}
	if !v.user.Payloads {
		return errForbidden
	}
	part := v.r.PathValue("part")
	content, ok := map[string][]byte{"payload": t.Payload, "result": t.Result, "progress": t.Progress}[part]
	if !ok {
		return errNoPage
	}
	kind, ext := "application/octet-stream", ".bin"
	if utf8.Valid(content) {
		kind, ext = "text/plain; charset=utf-8", ".txt"
		if json.Valid(content) {
			ext = ".json"
		}
	}
	h := v.w.Header()
	h.Set("Content-Type", kind)
	if v.form("as") != "text" || ext == ".bin" {
		h.Set("Content-Disposition", `attachment; filename="`+t.ID.String()+"-"+part+ext+`"`)
	}
	respond(v.w, v.r, http.StatusOK, content, nil)
	return nil
}
