package chaos

// chunkEnd is the end that hides best: the body is complete as HTTP sees it and only
// the event is not, so that only a reader that waits for the blank line can tell.
var chunkEnd = kindSpec{
	name:       "chunk-end",
	about:      "The body ends as its framing says (last chunk, or the close it ends with) in the middle of an event.",
	at:         []Place{MidEvent, MidResponse, GetStream},
	elsewhere:  "outside an event a legal end of the body is what the target may do itself",
	end:        End{Legal: true},
	insideOnly: true,
}
