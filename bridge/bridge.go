// Package bridge connects queues with other systems and with other databases.
//
// A Webhook POSTs the tasks of a queue to a URL. A Receiver is an http.Handler that enqueues a task for each message
// that it gets. Messages are signed as Standard Webhooks specifies (www.standardwebhooks.com), so the other end need
// not use dbq.
//
//	secret, err := bridge.ParseSecret(os.Getenv("WEBHOOK_SECRET"))
//	hook, err := bridge.NewWebhook(bridge.WebhookConfig{Endpoint: bridge.Endpoint{
//		URL: "https://shop.example/hooks", Secrets: []bridge.Secret{secret},
//	}})
//	err = hook.Worker(client.Queue("notify")).Run(ctx)
//
// A Forwarder moves the tasks of a queue to a queue of another database, each exactly once: directly, or over HTTP to a
// Receiver there.
//
// No error or log line of this package contains a secret, the path or query of a URL, or a payload. The result of a
// Webhook's task contains the endpoint's response.
package bridge

import (
	"fmt"

	"github.com/dbq-go/dbq/internal/errs"
)

// ErrConfig is returned for a configuration with an invalid field. It matches dbq.ErrInvalid too.
var ErrConfig error = &errs.InvalidError{Text: "bridge: invalid configuration"}

// invalid returns ErrConfig with the problem and its correction.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
}
