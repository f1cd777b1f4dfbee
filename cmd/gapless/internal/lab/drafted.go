package lab

import "github.com/gapless-dev/gapless/profiles"

// drafted tells a profile whose target speaks the draft of resumable streams.
func drafted(p profiles.Profile) bool { return p.Target.Dialect == "streams" }

// draftedArgs are the arguments of the reference server of that dialect. What other
// servers ask for by retry it asks for by resumeInterval.min.
func draftedArgs(p profiles.Profile) []string {
	return []string{
		"serve", "--dialect", "streams", "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0", "--leave-with-stdin",
		"--resume-min", p.Server.Retry.Std().String(),
	}
}
