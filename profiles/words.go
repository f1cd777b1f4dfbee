package profiles

// The closed sets of words of a profile, in the order in which they are listed.

const (
	modernRevision Protocol = "2026-07-28"
	// pollingRevision is the first one in which a server closes connections of
	// calls that go on.
	pollingRevision Protocol = "2025-11-25"
)

func dialects() []string   { return []string{"resume", "streams", "umcp", "modern"} }
func transports() []string { return []string{"http", "ws", "stdio"} }
func contracts() []string {
	return []string{"exactly-once", "at-least-once", "bounded", "none"}
}
func oracles() []string { return []string{"auto", "ledger", "numbered", "twin", "wire"} }
func seats() []string   { return []string{"client", "proxy"} }

// revisions of a dialect, oldest first.
func revisions(dialect string) []Protocol {
	switch dialect {
	case "resume":
		return []Protocol{"2025-03-26", "2025-06-18", "2025-11-25"}
	case "streams":
		return []Protocol{"2025-06-18"}
	case "umcp":
		return []Protocol{"2024-11-05", "2025-03-26"}
	case "modern":
		return []Protocol{modernRevision}
	}
	return nil
}

// Kinds of faults.
func kinds() []string {
	return []string{
		"rst", "fin", "chunk-end", "blackhole", "stall", "delay", "throttle", "slice", "refuse", "status",
		"storm", "server-crash", "server-drain", "store-fault", "noisy-neighbour", "none",
	}
}

// Places where faults strike.
func places() []string {
	return []string{
		"request", "headers", "before-first-id", "initialize",
		"after-priming", "between-events", "mid-event",
		"before-response", "mid-response", "after-response",
		"resume-before-headers", "resume-before-first-event", "mid-replay", "at-live", "get-stream",
	}
}

// runWide are the kinds that a clock of the run fires, not a position in a stream.
func runWide() []string {
	return []string{"storm", "server-crash", "server-drain", "store-fault", "noisy-neighbour"}
}

func invariants() []string {
	return []string{
		"one-response", "no-loss", "no-duplicate", "in-order", "intact", "own-stream", "own-session",
		"unique-ids", "stable-ids", "one-stream-per-message", "progress-increases", "silent-after-response",
		"legal-frames", "resume-progress", "replay-after-response", "idempotent-resume", "cursor-verdict",
		"honest-retention", "executed-once", "primed", "retry-announced", "no-early-close", "stream-ends",
		"session-status", "origin-refused", "no-seen-loss", "poll-truthful", "end-last",
		"neighbours-unharmed", "resources-return", "keep-alive",
	}
}
