// Package twin numbers the messages of a call that do not number themselves, by
// comparing them with those of control calls.
package twin

// A Twin is what control calls showed of one call.
type Twin struct{}

// A Counter numbers the messages of one stream.
type Counter struct{ Twin *Twin }
