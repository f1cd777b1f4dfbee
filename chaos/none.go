package chaos

// none never strikes: a mix of nothing but none plans nothing.
var none = kindSpec{
	name:  "none",
	about: "Nothing happens: the run shows what the target does without faults.",
}
