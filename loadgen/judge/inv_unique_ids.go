package judge

func uniqueIDsInvariant() invariant {
	return invariant{
		name:   "unique-ids",
		claim:  "an event id names one event of its session",
		source: "2025-11-25 transports, Resumability 1 (MUST be globally unique across all streams of the session)",
		level:  LevelMust,
		role: func(s Setup) (Role, string) {
			if s.IDs {
				return whenResumed(s, Demanded)
			}
			return whenResumed(s, Watched)
		},
		// Ids are compared among themselves here and across the session's streams when the
		// stream is merged.
		settle: (*Stream).compareIDs,
	}
}
