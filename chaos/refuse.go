package chaos

import (
	"os"
	"syscall"
)

// refuse is a target that is not there for a moment. The link, which is open when it
// learns what it carries, is closed unused and its writer gets what a refused dial
// gives.
var refuse = kindSpec{
	name:      "refuse",
	about:     "The connection for a resume is refused: its request never leaves.",
	at:        []Place{ResumeBeforeHeaders},
	elsewhere: "only the connection that a resume is made on can be refused",
	answers: func(*Planned) (string, error) {
		return "", os.NewSyscallError("connect", syscall.ECONNREFUSED)
	},
}
