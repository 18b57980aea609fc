package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// ErrChanged is returned by Replace if the schedule is not the one that the caller has read. Nothing was changed.
var ErrChanged = errors.New("the schedule was changed or deleted meanwhile, or exists already: read it again")

// Replace is Put for a schedule that has not changed since its Info was read: revision is Info.Revision, or "" if
// there must be no schedule of this name. Otherwise it returns ErrChanged. Use it where people edit schedules.
func (s *Schedules) Replace(ctx context.Context, revision string, d Schedule) error {
	return s.put(ctx, "replace schedule", d, "", func(old *value) error {
		stored := ""
		if old != nil {
			stored = old.revision()
		}
		if stored != revision {
			return ErrChanged
		}
		return nil
	})
}

// revision identifies a definition. A change of the status does not change it.
func (v *value) revision() string {
	b, err := json.Marshal(valueOf(v.schedule("")))
	if err != nil {
		return "" // a definition is plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}
