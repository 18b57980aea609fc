package bridge

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dbq-go/dbq"
)

// The headers of Standard Webhooks.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// The bytes of a secret's key, as Standard Webhooks recommends.
const (
	minKey = 24
	maxKey = 64
)

// maxSignatures is how many signatures of a message are compared. A sender has one for each of its secrets.
const maxSignatures = 16

const secretPrefix = "whsec_"

// Secret is a key that signs messages. Only Reveal returns the key: printing, logging or encoding a Secret hides it.
// The zero value is not a valid Secret.
type Secret struct{ key []byte }

// NewSecret returns a new random secret.
func NewSecret() Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return Secret{key}
}

// ParseSecret reads a secret in the form of Standard Webhooks: whsec_ and then 24 to 64 bytes as base64. The prefix may
// be missing. The error does not contain the secret.
func ParseSecret(text string) (Secret, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), secretPrefix))
	if err != nil || len(key) < minKey || len(key) > maxKey {
		return Secret{}, invalid("a secret is not %s with %d to %d bytes as base64; bridge.NewSecret makes one",
			secretPrefix, minKey, maxKey)
	}
	return Secret{key}, nil
}

// Reveal returns the secret in the form that ParseSecret reads.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

const hiddenSecret = secretPrefix + "***"

// String returns whsec_***.
func (s Secret) String() string { return hiddenSecret }

// Format prints String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, hiddenSecret) }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }

// MarshalText returns String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hiddenSecret), nil }

// mac returns the signature of a message.
func (s Secret) mac(id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// checkSecrets refuses a list without secrets, or with the zero Secret.
func checkSecrets(secrets []Secret) error {
	if len(secrets) == 0 || len(secrets) > maxSignatures {
		return invalid("%d secrets are set; set 1 to %d", len(secrets), maxSignatures)
	}
	for _, s := range secrets {
		if len(s.key) < minKey {
			return invalid("a secret is empty; bridge.ParseSecret reads one")
		}
	}
	return nil
}

// sign sets the headers of a message: one signature by each secret.
func sign(h http.Header, secrets []Secret, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(s.mac(id, timestamp, body))
	}
	h.Set(headerID, id)
	h.Set(headerTimestamp, timestamp)
	h.Set(headerSignature, strings.Join(signatures, " "))
}

// Why a message is refused.
var (
	errHeaders   = errors.New("a header of Standard Webhooks is missing, malformed or given twice")
	errExpired   = errors.New("the timestamp is too far from the receiver's clock")
	errSignature = errors.New("no signature matches")
)

// message is the signed part of the headers of a message.
type message struct {
	id, timestamp string
	signatures    [][]byte // of version 1; others are ignored
}

// readMessage reads the headers of a message, and refuses one whose timestamp is not within tolerance of now.
func readMessage(h http.Header, now time.Time, tolerance time.Duration) (m message, err error) {
	var signatures string
	for name, to := range map[string]*string{
		headerID: &m.id, headerTimestamp: &m.timestamp, headerSignature: &signatures,
	} {
		values := h.Values(name)
		if len(values) != 1 || values[0] == "" {
			return m, errHeaders
		}
		*to = values[0]
	}
	// What is signed is id.timestamp.body: with a dot in the id, parts of one could be taken for another one.
	if len(m.id) > dbq.MaxReference || strings.ContainsFunc(m.id, notGraphic) || strings.Contains(m.id, ".") {
		return m, errHeaders
	}
	seconds, err := strconv.ParseInt(m.timestamp, 10, 64)
	if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != m.timestamp {
		return m, errHeaders
	}
	if now.Unix()-seconds > int64(tolerance/time.Second) || seconds-now.Unix() > int64(tolerance/time.Second) {
		return m, errExpired
	}
	for field := range strings.FieldsSeq(signatures) {
		encoded, version1 := strings.CutPrefix(field, "v1,")
		if !version1 {
			continue
		}
		mac, err := base64.StdEncoding.DecodeString(encoded)
		if err == nil && len(mac) == sha256.Size && len(m.signatures) < maxSignatures {
			m.signatures = append(m.signatures, mac)
		}
	}
	if len(m.signatures) == 0 {
		return m, errSignature
	}
	return m, nil
}

// notGraphic matches characters that an id cannot have: it becomes part of a reference.
func notGraphic(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsGraphic(r) }

// verify refuses a message that none of the secrets has signed. How long it takes does not depend on the signatures'
// values.
func (m message) verify(secrets []Secret, body []byte) error {
	found := false
	for _, s := range secrets {
		want := s.mac(m.id, m.timestamp, body)
		for _, mac := range m.signatures {
			if hmac.Equal(mac, want) {
				found = true
			}
		}
	}
	if !found {
		return errSignature
	}
	return nil
}
