package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// An ident is the index of an invariant in the table.
type ident uint8

// The invariants, in the order in which reports list them.
const (
	oneResponse ident = iota
	noLoss
	noDuplicate
	inOrder
	intact
	ownStream
	ownSession
	uniqueIDs
	stableIDs
	progressIncreases
	silentAfterResponse
	silentAfterCut
	legalFrames
	resumeProgress
	reissueAnswered
	executedOnce
	oneStream
	replayAfterResponse
	idempotentResume
	cursorVerdict
	honestRetention
	sessionStatus
	originRefused
	primed
	retryAnnounced
	noEarlyClose
	streamEnds
	pollTruthful
	endLast
	invariantCount
)

// An invariant is one promise. Its folds see the facts of one stream in order; they
// call [Stream.check] for what they looked at and [Stream.find] for what is wrong.
type invariant struct {
	name, claim, source string
	// under says what is claimed under a setup, where that is less; nil or "" means claim.
	under func(Setup) string
	level Level
	// role is a pure function of the setup. why says in a few words why the
	// invariant does not apply.
	role func(Setup) (r Role, why string)
	// event sees every dispatched event, after the shared account of the stream did;
	// fact sees every other record. Either may be nil.
	event func(*Stream, *history.Record)
	fact  func(*Stream, *history.Record)
	// settle runs once, when the stream is closed; it may be nil.
	settle func(*Stream)
}

// claimed says what is claimed under a setup.
func (inv *invariant) claimed(s Setup) string {
	if inv.under != nil {
		if text := inv.under(s); text != "" {
			return text
		}
	}
	return inv.claim
}

// table returns all invariants, indexed by ident. It is a function because the
// package keeps no state of its own.
func table() []invariant {
	return []invariant{
		oneResponse:         oneResponseInvariant(),
		noLoss:              noLossInvariant(),
		noDuplicate:         noDuplicateInvariant(),
		inOrder:             inOrderInvariant(),
		intact:              intactInvariant(),
		ownStream:           ownStreamInvariant(),
		ownSession:          ownSessionInvariant(),
		uniqueIDs:           uniqueIDsInvariant(),
		stableIDs:           stableIDsInvariant(),
		progressIncreases:   progressIncreasesInvariant(),
		silentAfterResponse: silentAfterResponseInvariant(),
		silentAfterCut:      silentAfterCutInvariant(),
		legalFrames:         legalFramesInvariant(),
		resumeProgress:      resumeProgressInvariant(),
		reissueAnswered:     reissueAnsweredInvariant(),
		executedOnce:        executedOnceInvariant(),
		oneStream:           oneStreamInvariant(),
		replayAfterResponse: replayAfterResponseInvariant(),
		idempotentResume:    idempotentResumeInvariant(),
		cursorVerdict:       cursorVerdictInvariant(),
		honestRetention:     honestRetentionInvariant(),
		sessionStatus:       sessionStatusInvariant(),
		originRefused:       originRefusedInvariant(),
		primed:              primedInvariant(),
		retryAnnounced:      retryAnnouncedInvariant(),
		noEarlyClose:        noEarlyCloseInvariant(),
		streamEnds:          streamEndsInvariant(),
		pollTruthful:        pollTruthfulInvariant(),
		endLast:             endLastInvariant(),
	}
}

// always is the role of what no setup can rule out.
func always(Setup) (Role, string) { return Demanded, "" }

// ofMessages is the role of what is said of numbered messages: demanded, unless only
// responses are judged.
func ofMessages(s Setup) (Role, string) {
	if s.Oracle == OracleResponse {
		return NotApplicable, "only the response is judged"
	}
	return Demanded, ""
}

// whenTold demands an invariant where the oracle numbers the messages.
func whenTold(s Setup) (Role, string) {
	if s.told() {
		return Demanded, ""
	}
	return Watched, ""
}

// whenProbed is for what only a probe of a sampled stream can put to the test: a finding
// convicts, but a sample that could not be asked, or a target too slow for the little time
// of a probe, keeps no run from holding.
func whenProbed(s Setup) (Role, string) { return whenResumed(s, Watched) }

// roleOf applies Setup.Ignore before the invariant's own rule.
func roleOf(inv *invariant, s Setup) (Role, string) {
	for _, name := range s.Ignore {
		if name == inv.name {
			return NotApplicable, "ignored by the profile"
		}
	}
	return inv.role(s)
}
