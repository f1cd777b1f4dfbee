// Package history defines the facts of a run: one [Record] per fact, in the
// order in which the goroutine that owns the stream saw them.
//
// It is a leaf. The judge reads nothing else, so whatever a verdict may rest
// on has to be a field of a Record.
package history

import "time"

// A Record is one fact of a run. It is a plain value without pointers, so that
// reporting one allocates nothing. Which fields mean something depends on Kind;
// all others are zero.
type Record struct {
	Kind Kind
	// At is the time since the start of the run. It is for display and for
	// limits, never for ordering across streams.
	At time.Duration
	// Session and Stream name the logical event stream; both count from 1.
	Session, Stream uint32
	// Attempt counts the HTTP exchanges of the stream: 0 is the POST, 1 the
	// first resume.
	Attempt uint16
	// Link numbers the TCP connection, from 1, unique in the run.
	Link uint32

	Exchange  Exchange  // KindAttempt
	Head      Head      // KindHead
	Event     Event     // KindEvent
	End       End       // KindEnd
	Injection Injection // KindInjection
	Outcome   Outcome   // KindSettled
	Ledger    Ledger    // KindLedgerCall, KindLedgerMessage
	Probe     Probe     // KindProbe
	Poll      Poll      // KindPoll
}

// Kind says which fact a Record states.
type Kind uint8

// The facts. A stream's history is, in this order: one KindAttempt with Attempt 0; per
// exchange at most one KindHead, any number of KindEvent and KindInjection, then
// one KindEnd; further KindAttempt for resumes, with a KindPoll before where the dialect has
// polls, and in a sampled stream one more when it is complete; in a sampled stream its KindProbe
// records, one per extra exchange (these have no KindAttempt of their own; that of a
// [ProbeReissue] may follow a stream that did not complete); one KindSettled; then, where the target keeps a ledger, KindLedgerMessage records and
// one KindLedgerCall.
const (
	KindNone          Kind = iota
	KindAttempt            // an exchange begins: its request is about to be written
	KindHead               // the status line and headers of its response are complete
	KindEvent              // the SSE reader dispatched an event (or a JSON body arrived whole)
	KindInjection          // a fault fired on the link of the current exchange
	KindEnd                // the exchange is over
	KindSettled            // the stream has its outcome; no client record follows
	KindLedgerMessage      // the target's own account of one message it emitted
	KindLedgerCall         // the target's own account of the call; always the last record
	KindProbe              // an extra exchange, made to ask one question, is over
	KindPoll               // a stream/poll is over (dialect streams)
)

// Exchange describes an attempt as it begins.
type Exchange struct {
	// Resume tells a GET with Last-Event-ID from the POST.
	Resume bool
	// Call is the index, in the profile, of the call that is made. Only the record of
	// Attempt 0 carries it.
	Call uint8
	// Cursor is the ordinal, within the stream, of the last committed id: 0 before
	// the first. It stands for the id itself, which is a secret.
	Cursor uint32
	// Asked is the reconnection time the server announced; Waited is how long the
	// client really waited since the previous exchange ended. Asked stands in KindSettled
	// too, where the deadline left no time for the wait.
	Asked, Waited time.Duration
}

// Head describes a response head.
type Head struct {
	Status int
	Body   Body
	// Missed is the number of events that the target says it will replay on this
	// exchange before it is live again; -1 when it does not say.
	Missed int32
}

// Body is the kind of a response body.
type Body uint8

// Kinds of response bodies.
const (
	BodyNone  Body = iota // no body, or one that carries no MCP message
	BodySSE               // text/event-stream
	BodyJSON              // application/json
	BodyOther             // any other media type
)

// Event describes one dispatched event, after a single pass over its bytes.
type Event struct {
	Class Class
	// Owner says whose message it is, by progress token, request id or call mark.
	Owner Owner
	// Digest tells whether the digest that the message carries fits its payload. Under
	// oracle twin a message without a Seq for which it is DigestWrong is one of the call
	// that equals none of the control calls'.
	Digest Digest
	// OwnerStream is the stream a foreign message belongs to, 0 when unknown.
	OwnerStream uint32
	// HasID tells whether the block carried an id line; IDHash hashes the id,
	// Cursor is the ordinal of the last committed id of the stream after this event.
	HasID  bool
	IDHash uint64
	Cursor uint32
	// Seq and Total are what the message says of itself: 1..N and N; 0 when absent. A
	// message that says nothing gets its Seq by comparison with the control calls
	// (oracle twin); then 0 means that it is equal to none of theirs.
	// Ordered tells that it carried a progress value at all, Progress that value.
	Seq, Total int64
	Ordered    bool
	Progress   float64
	// Hash is the xxhash64 of the message's canonical JSON (no insignificant white
	// space, keys sorted when white space had to be removed).
	Hash uint64
	// Bytes is the size of the event's data.
	Bytes uint32
	// Late: read from an old link after the stream's resume was sent.
	Late bool
	// Illegal says what is wrong with the frame; 0 when it is legal.
	Illegal Illegal
}

// Digest is how a digest compares with the payload it was taken over.
type Digest uint8

// Digests.
const (
	DigestNone  Digest = iota // none is carried, or none was asked for
	DigestRight               // it is that of the payload
	DigestWrong               // it is not, or there is no payload
)

// Class is what an event carries.
type Class uint8

// Classes of events.
const (
	ClassNone         Class = iota
	ClassEmpty              // empty data: a priming or polling event, no message; of another type only with an id
	ClassOther              // any other event of a type other than "message": no JSON-RPC, moves the cursor only
	ClassProgress           // notifications/progress
	ClassNotification       // any other notification
	ClassRequest            // a request from the server
	ClassResponse           // a result
	ClassError              // a JSON-RPC error response
	ClassJunk               // not a JSON-RPC message at all; Illegal says why
	ClassCreate             // dialect streams: notifications/stream/create, no message of the call
	ClassEnd                // dialect streams: notifications/stream/end, no message of the call
	ClassRefusal            // dialect streams: stream/resume was answered with an error for good
)

// Message tells the classes that carry a message to somebody: a call's, or junk. What only
// frames a stream is none.
func (c Class) Message() bool { return c >= ClassProgress && c <= ClassJunk }

// Owner says to whom a message belongs.
type Owner uint8

// Owners, seen from the stream that received the message.
const (
	OwnerUnmarked     Owner = iota // it carries nothing that tells
	OwnerSelf                      // this stream
	OwnerOtherStream               // another stream of this session
	OwnerOtherSession              // a stream of another session
	OwnerNobody                    // a mark that this run never gave out
)

// Illegal is a set of reasons why a frame breaks SSE, JSON-RPC or UTF-8.
type Illegal uint16

// Reasons for a frame to be illegal.
const (
	IllegalUTF8    Illegal = 1 << iota // data or id is not valid UTF-8
	IllegalJSON                        // not well-formed JSON
	IllegalRPC                         // JSON, but no JSON-RPC 2.0 message
	IllegalID                          // an id with NUL, CR, LF or bytes outside visible ASCII
	IllegalSize                        // a line, header or event over its bound
	IllegalHTTP                        // the HTTP framing is broken
	IllegalBatch                       // a JSON array where the revision has no batches
	IllegalDupKeys                     // the same key twice where it decides the meaning
)

// End says how an exchange ended.
type End uint8

// Ends of exchanges.
const (
	EndNone        End = iota
	EndClean           // the body ended as its framing says, between events
	EndMidEvent        // the body ended as its framing says, inside an event
	EndTruncated       // FIN before the framing was complete
	EndReset           // RST
	EndIdle            // nothing but keep-alive came for the idle limit
	EndDeadline        // the stream's deadline passed
	EndStatus          // answered with a status other than 2xx; the body was dropped
	EndFrame           // broken HTTP or SSE framing, or a bound exceeded: Event.Illegal of a junk event says which
	EndUnreachable     // no link could be opened
	EndOpen            // the response came, but the target kept the stream open
	EndStopped         // the run was stopped
)

// Unplanned is the Injection.Planned of a fault that no plan had.
const Unplanned = -2

// Injection describes a fault that fired. Names are those of the fault catalogue
// (DESIGN §5); they are interned strings, never built per record.
type Injection struct {
	Kind, Place string
	// Planned is the index of the fault in the stream's plan, from 0; -1 for a storm of the
	// plan, [Unplanned] for one that somebody asked for while the run went on.
	Planned int
	// Event is the ordinal on this link of the event the fault struck at or in, from 1;
	// 0 before the first. Offset is the number of its bytes that were delivered.
	Event  uint32
	Offset uint32
	// Opening marks a cut that was planned only to make a resume place reachable.
	Opening bool
	// InReplay: it struck before the caught-up point of a resumed link.
	InReplay bool
	// AfterID: a committed id of this stream had been delivered before the fault.
	AfterID bool
	// For is how long a lasting fault acts; 0 for one that takes an instant.
	For time.Duration
	// Ends: the fault ends the link. A link that only suffers lives on.
	Ends bool
	// Approximate: bytes were still on their way when a proxy reset the link, so what
	// the client got of them is not known to the byte.
	Approximate bool
	// RunWide: it struck many links at one instant (a storm) and counts once for all.
	RunWide bool
}

// Outcome is how a stream ended; every stream has exactly one.
type Outcome uint8

// Outcomes of a stream (DESIGN §1).
const (
	OutcomeNone          Outcome = iota
	OutcomeCompleted             // its response was dispatched
	OutcomeIndeterminate         // our own fault struck at or before the first committed id, or a rested link was closed before any answer
	OutcomeNotSent               // the call was never written whole
	OutcomeRefused               // the target refused the call or the resume for good
	OutcomeCancelled             // cancelled on purpose: notifications/cancelled was sent
	OutcomeUndecided             // ended by our own stop, or too late while we were slow
	OutcomeFailed                // the target broke its promise: hang, endless refusal, early end
)

// Ledger is the reference server's own account. KindLedgerMessage fills Seq, Hash
// and Fate; KindLedgerCall fills the rest.
type Ledger struct {
	Seq  int64
	Hash uint64 // as Event.Hash
	Fate Fate

	Known      bool  // the target knows the call at all
	Emitted    int64 // messages the handler emitted
	Executions int32 // times the tool body ran
	Responses  int32 // responses appended to the stream's log
	Cancelled  bool  // the handler's context was cancelled before it was done
	Answers    int32 // requests of the server to the client that were answered
	CancelSeen bool  // notifications/cancelled for the call reached the target
}

// Fate is what became of a message at the target.
type Fate uint8

// Fates of an emitted message.
const (
	FateUnknown  Fate = iota // intent recorded, no result: it may arrive 0 or 1 times
	FateAccepted             // appended to the log
	FateUnstored             // written without an id because the store failed
)

// StreamKind tells the streams of the load from those the tool adds for itself.
type StreamKind uint8

// Kinds of streams.
const (
	StreamLoad    StreamKind = iota // planned load
	StreamControl                   // a control call: no faults, made first
	StreamCanary                    // one event is dropped on purpose; the judge must convict it
	// StreamGet is the standalone GET stream of a session, carrying the messages of one
	// call that emits there. Attempt 0 is the plain GET. The response to the POST of
	// the call is a KindEvent of ClassResponse, at the time it came.
	StreamGet
)

// Probe is the result of one extra exchange with a target, made to ask a question
// that the load leaves open. A probe of a whole session is a record of the stream
// that was sampled for it.
type Probe struct {
	Name ProbeName
	// Offered: what the question needs was there (an id, a session id). When false
	// nothing was asked and all other fields but Name are zero.
	Offered bool
	// Status is the HTTP status, 0 when no response head came.
	Status int
	// Want is the number of messages that had to come, the response not counted.
	Want int32
	// Events counts everything dispatched. Messages counts those that came in the right
	// order with the right content, Wrong every other message, Foreign what belongs
	// to another stream or session.
	Events, Messages, Foreign, Wrong int32
	// Response: the call's response came, equal to the one that the stream had got.
	Response bool
	// End is how the exchange ended, Took how long it took from the request to there.
	End  End
	Took time.Duration
}

// ProbeName says which question a [Probe] asks.
type ProbeName uint8

// The questions.
const (
	ProbeNone            ProbeName = iota
	ProbeReplay                    // a GET from a cursor in the middle, after the response had come
	ProbeAgain                     // the same GET once more; it has to give the same
	ProbeUnknownCursor             // a cursor that looks like an id and never was one
	ProbeMalformedCursor           // a cursor of a form that the target never uses
	ProbeForeignCursor             // a cursor of a stream of another session
	ProbeMissingSession            // a request without a session id
	ProbeDeadSession               // a request in a session that was deleted
	ProbeOrigin                    // a request whose Origin is somebody else's
	// ProbeReissue is the call of a stream that was cut, made again under a new id. Want,
	// Messages, Response and Took are of the new call, Foreign counts messages of the
	// call that was cut, Wrong is 0.
	ProbeReissue
)

// Poll is what a stream/poll of dialect streams was answered. All fields but Status are
// false when no answer came, or one that is no StreamPollResult.
type Poll struct {
	// Status is the HTTP status, 0 when no response head came.
	Status int
	// Answered: with a StreamPollResult; Refused: with an error.
	Answered, Refused bool
	// Completed tells status "completed" from "live"; the others are as they are called
	// there.
	Completed, Pending, HasRequest, HasError bool
	// Strange: the result names another stream than it was asked for, or a status that
	// there is not.
	Strange bool
}
