//go:build !unix

package loadgen

import "time"

// processTime is not known here.
func processTime() time.Duration { return 0 }
