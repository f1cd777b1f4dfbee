package chaos

// storm is the crash of whatever all links pass through. It has no place of its own and
// is recorded at the one where each link was (see [Nemesis]).
var storm = kindSpec{
	name:    "storm",
	about:   "All links of the load that carry a stream, or a share of them, are reset at one instant; every says how often.",
	end:     End{Reset: true},
	runWide: true,
}
