package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// errOutdated means that the values that a form would overwrite have changed since the form was shown.
var errOutdated = errors.New("it has been changed meanwhile")

// version identifies the values that a form was filled with.
func version(values any) (string, error) {
	b, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("console: version of a form: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), nil
}

// outdated reports whether the form was filled with other values than the stored ones. A form without a version
// overwrites any.
func (v *visit) outdated(stored any) bool {
	was := v.form("version")
	now, err := version(stored)
	return was != "" && (err != nil || was != now)
}

// unlessOutdated returns the error of a change.
func unlessOutdated(outdated bool, err error) error {
	if err == nil && outdated {
		return errOutdated
	}
	return err
}
