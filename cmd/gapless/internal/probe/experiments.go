package probe

import "context"

// needs is what an experiment cannot do without.
type needs uint8

const (
	needsSession needs = iota
	needsTool          // and a session
	needsNothing
)

// An experiment asks something and fills rows by it. Each has sessions of its own.
type experiment struct {
	rows    []string
	needs   needs
	watches bool // it lasts as long as the others do
	ask     func(context.Context, *run) error
	after   func(*run) // whatever happened
}

// experiments is the table of what is asked. What takes milliseconds
// comes before what takes a call.
func experiments() []experiment {
	return []experiment{
		{ask: watchGet, watches: true, rows: []string{"get-stream", "get-priming", "get-second", "keep-alive"}},
		{ask: waitForExpiry, watches: true, rows: []string{"session-expiry"}},
		{ask: waitForRetention, watches: true, needs: needsTool, rows: []string{"retention-time"}},
		{ask: controlCall, after: func(x *run) { close(x.learned) }, needs: needsTool, rows: callRows()},
		{ask: deleteSession, rows: []string{"delete", "deleted-404", "delete-unknown"}},
		{ask: draftUnknown, rows: []string{"draft-unknown", "draft-poll"}},
		{ask: handshakes, rows: named(handshakeRows)},
		{ask: basics, rows: []string{"ping", "request-answer", "response-id", "unknown-method", "unknown-tool", "response-202", "malformed-body"}},
		{ask: headers, rows: []string{"accept-post", "accept-get", "content-type", "version-bad", "version-absent", "version-other", "cursor-on-post"}},
		{ask: sessionHeader, rows: []string{"session-missing", "session-unknown", "get-without-session", "get-answer"}},
		{ask: origins, rows: named(securityRows)},
		{ask: batches, rows: named(batchRows)},
		{ask: framing, rows: []string{"close-announced", "chunked-request", "duplicate-host", "duplicate-length", "duplicate-session"}},
		{ask: modern, needs: needsNothing, rows: named(modernRows)},
		{ask: cutAndResume, needs: needsTool, rows: []string{
			"resume", "resume-no-loss", "resume-no-repeat", "resume-in-order", "resume-own-stream", "resume-priming", "cursor-other-stream",
			"window-rst", "window-fin", "ids-unique", "ids-name-stream", "one-stream-per-message", "response-not-on-get"}},
		{ask: cutThrice, needs: needsTool, rows: []string{"resume-thrice"}},
		{ask: leaveAndReturn, needs: needsTool, rows: []string{"disconnect-no-cancel"}},
		{ask: resumeAttached, needs: needsTool, rows: []string{"attached", "one-consumer"}},
		{ask: goSilent, needs: needsTool, rows: []string{"half-open", "stalled-resume"}},
		{ask: cancelCall, needs: needsTool, rows: []string{"cancel"}},
		{ask: reuseID, needs: needsTool, rows: []string{"duplicate-id"}},
		{ask: pollingClose, needs: needsTool, rows: []string{"polling-close", "polling-close-id", "polling-close-retry", "polling-resume"}},
		{ask: earlyClose, needs: needsTool, rows: []string{"early-close-2025-06-18"}},
		{ask: stallReader, needs: needsTool, rows: []string{"head-of-line"}},
		{ask: overflow, needs: needsTool, rows: []string{"retention-events", "retention-overrun"}},
		{ask: resumeGet, needs: needsTool, rows: []string{"get-resume", "get-resume-no-loss", "get-reopen"}},
		{ask: finishedCall, needs: needsTool, rows: []string{
			"resume-after-response", "resume-ends", "resume-final", "resume-idempotent", "ids-stable", "cursor-unknown", "cursor-malformed",
			"cursor-future", "cursor-other-session", "cursor-empty", "cursor-long"}},
		{ask: deleteWithStream, needs: needsTool, rows: []string{"delete-streams", "deleted-cursor"}},
		{ask: sessionStream, needs: needsTool, rows: named(umcpRows)},
		{ask: draftCreate, needs: needsTool, rows: []string{"draft-create", "draft-end"}},
	}
}

func named(rows []Row) []string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = r.Name
	}
	return all
}

// callRows are those that one whole call fills.
func callRows() []string {
	return []string{
		"stream-type", "stream-cache", "stream-buffering", "stream-connection", "stream-encoding", "priming", "retry", "ids", "ids-all",
		"ids-charset", "frames", "unbuffered", "progress-on-call", "progress-increases", "progress-token", "one-response", "response-ends-stream",
		"silent-after-response",
	}
}
