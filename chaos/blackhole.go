package chaos

// blackhole is a link whose other end has vanished without a word. The connection is
// kept open, also when the reader closes its side, until the fault has acted for its
// time or the run heals; so a target goes on believing in a client that has long
// returned on another link. The kernel below still acknowledges what arrives as long
// as its buffer has room, which a lost host would not.
var blackhole = kindSpec{
	name:      "blackhole",
	about:     "Nothing passes any more in either direction and nobody is told; the link is closed when the fault is over or the run heals.",
	at:        []Place{BetweenEvents, MidEvent, BeforeResponse, GetStream},
	elsewhere: "a link can fall silent anywhere, and here it would show nothing that between-events, mid-event and before-response do not",
	end:       End{Silent: true},
	takes:     parameters{lasting: true},
}
