package chaos

// fin closes the link; the reader sees the end of the file wherever it is. In a
// chunked body or one of known length that is a truncation, in one that ends with
// the link it looks like its proper end.
var fin = kindSpec{
	name:  "fin",
	about: "The connection is closed: both ends see the end of the file.",
}
