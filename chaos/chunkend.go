package chaos

// chunkEnd is the end that hides best: the body is complete as HTTP sees it and only
// the event is not, so that only a reader that waits for the blank line can tell.
var chunkEnd = kindSpec{
	name:       "chunk-end",
	about:      "The body ends as its framing says (last chunk, or the close it ends with) in the middle of an event.",
	end:        End{Legal: true},
	insideOnly: true,
}
