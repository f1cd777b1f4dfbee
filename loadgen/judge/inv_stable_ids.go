package judge

func stableIDsInvariant() invariant {
	return invariant{
		name:   "stable-ids",
		claim:  "what is replayed under an id is the same message",
		source: "derived from 2025-11-25 transports, Resumability 2 (the id is a cursor within that stream)",
		level:  LevelDerived,
		// A correct target never replays what arrived, so seeing nothing is no fault.
		// The comparison is made by unique-ids, in one pass over the ids.
		role: func(s Setup) (Role, string) { return whenResumed(s, Watched) },
	}
}
