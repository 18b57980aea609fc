package sqlrun

// A TxError is an error inside a transaction that Session.Tx ran or that is the caller's, or of a connection that could
// not be acquired. Committing reports that COMMIT had been sent. If the connection was lost before, nothing happened;
// if it was lost after, the change may have happened.
type TxError struct {
	Committing bool
	Err        error
}

// Error is the text of the wrapped error.
func (e *TxError) Error() string {
	if e.Committing {
		return "commit: " + e.Err.Error()
	}
	return e.Err.Error()
}

// Unwrap returns the driver's error.
func (e *TxError) Unwrap() error { return e.Err }
