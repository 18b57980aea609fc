package dialect

import "context"

// A Password returns the password for a new connection. It may be called by several goroutines.
type Password func(ctx context.Context) (string, error)

// Next returns the password. An error means that the server could not be reached.
func (p Password) Next(ctx context.Context) (string, error) {
	text, err := p(ctx)
	if err != nil {
		return "", &passwordError{err}
	}
	return text, nil
}

type passwordError struct{ cause error }

func (e *passwordError) Error() string { return "no password for a new connection: " + e.cause.Error() }
func (e *passwordError) Unwrap() error { return e.cause }
