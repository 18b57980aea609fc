package api_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
)

var (
	key   = []byte("0123456789abcdef0123456789abcdef")
	lease = dbq.Lease{TaskID: uuid.UUID{7, 15: 9}, Queue: "mäil", Fence: 1 << 53, Attempt: 7,
		Until: time.UnixMicro(1_800_000_000_123), Renewed: true}
)

func TestLeaseIsReadAsItWasSigned(t *testing.T) {
	t.Parallel()
	now := lease.Until.Add(-time.Minute)
	got, worker, started, err := api.Verify(key, api.Sign(key, lease, "w/1", now), now)
	if err != nil || !got.Until.Equal(lease.Until) || worker != "w/1" || !started.Equal(now.Add(-time.Minute)) {
		t.Fatalf("got %+v, %q, %v, %v", got, worker, started, err)
	}
	if got.Until = lease.Until; got.TaskID != lease.TaskID || got.Queue != lease.Queue || got.Fence != lease.Fence ||
		got.Attempt != lease.Attempt || !got.Renewed {
		t.Errorf("got %+v, want %+v", got, lease)
	}
}

// TestForgedLeasesAreRefused changes each bit of a lease, cuts it at each place, and signs it with another key.
func TestForgedLeasesAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	good := api.Sign(key, lease, "w", now)
	raw, err := base64.RawURLEncoding.DecodeString(good)
	check.OK(t, err)
	refused := func(what, text string) {
		t.Helper()
		if l, _, _, err := api.Verify(key, text, now); err == nil || l.TaskID == lease.TaskID {
			t.Errorf("%s is accepted: %+v, %v", what, l, err)
		}
	}
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			refused("a changed bit", base64.RawURLEncoding.EncodeToString(raw))
			raw[i] ^= 1 << bit
		}
		refused("a cut", base64.RawURLEncoding.EncodeToString(raw[:i]))
	}
	refused("more text", good+"AAAA")
	refused("padding", good+"=")
	refused("nothing", "")
	refused("another key", api.Sign([]byte(strings.ToUpper(string(key))), lease, "w", now))
}

func TestExpiredLeaseIsLost(t *testing.T) {
	t.Parallel()
	text := api.Sign(key, lease, "w", lease.Until)
	if _, _, _, err := api.Verify(key, text, lease.Until.Add(23*time.Hour)); err != nil {
		t.Errorf("soon after its end: %v", err)
	}
	if _, _, _, err := api.Verify(key, text, lease.Until.Add(25*time.Hour)); !errors.Is(err, dbq.ErrLeaseLost) {
		t.Errorf("long after its end: %v, want ErrLeaseLost", err)
	}
}

// TestForeignLeasesAreRefused uses leases of another database and of another queue.
func TestForeignLeasesAreRefused(t *testing.T) {
	t.Parallel()
	here, there := newSite(t), newSite(t)
	for _, s := range []*site{here, there} {
		s.must(201, "POST", mail+"/tasks", `{}`)
		s.must(201, "POST", mail+"/tasks", `{}`)
	}
	there.must(200, "POST", mail+"/checkout", `{}`)
	foreign := one(t, there.must(200, "POST", mail+"/checkout", `{}`), "tasks")["lease"].(string)
	own := one(t, here.must(200, "POST", mail+"/checkout", `{}`), "tasks")["lease"].(string)
	changed := own[:40] + "x" + own[41:]
	if changed == own {
		changed = own[:40] + "y" + own[41:]
	}
	for _, c := range [][2]string{{mail, foreign}, {"/v1/db/shop/queues/other", own}, {mail, changed}} {
		path, text := c[0], c[1]
		for _, r := range [][2]string{{"/settle", `{"settlements":[{"outcome":"complete","lease":"` + text + `"}]}`},
			{"/extend", `{"leases":[{"lease":"` + text + `"}]}`}} {
			list := map[string]string{"/settle": "settled", "/extend": "leases"}[r[0]]
			p, _ := one(t, here.must(200, "POST", path+r[0], r[1]), list)["problem"].(map[string]any)
			if p["type"] != wire.Prefix+"invalid-lease" {
				t.Errorf("%s%s with a foreign lease: %v", path, r[0], p)
			}
		}
	}
	again := serve(t, here.client) // another server of the same database has the same key
	settle := `{"settlements":[{"outcome":"complete","lease":"` + own + `"}]}`
	settled := one(t, again.must(200, "POST", mail+"/settle", settle),
		"settled")
	if settled["state"] != "COMPLETED" {
		t.Errorf("another server: %v", settled)
	}
}

func FuzzVerify(f *testing.F) {
	signed := api.Sign(key, lease, "w", lease.Until)
	f.Add(signed)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if l, _, _, err := api.Verify(key, text, lease.Until); err == nil && text != signed {
			t.Errorf("%q is accepted as %+v", text, l)
		}
	})
}
