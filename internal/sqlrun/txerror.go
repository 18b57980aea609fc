package sqlrun

// A TxError is an error inside a transaction that Session.Tx ran, or of a connection that could not be acquired.
// Committing is set once COMMIT was sent: a connection that is lost before means that nothing happened, and one that
// is lost after that it may have happened.
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

// Unwrap gives the driver's error.
func (e *TxError) Unwrap() error { return e.Err }
