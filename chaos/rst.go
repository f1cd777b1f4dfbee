package chaos

// rst is linger 0 and close: the kernel forgets what it has not sent and answers the
// peer with RST.
var rst = kindSpec{
	name:  "rst",
	about: "The connection is reset (linger 0): both ends get ECONNRESET.",
	end:   End{Reset: true},
}
