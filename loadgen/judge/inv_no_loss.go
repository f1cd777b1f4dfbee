package judge

func noLossInvariant() invariant {
	return invariant{
		name:  "no-loss",
		claim: "each accepted message arrives",
		under: func(s Setup) string {
			switch {
			case s.modern():
				return "each message of a call arrives up to its cut"
			case s.umcp() && s.Contract == NoPromise:
				return "each message arrives but for what falls between two links"
			case s.Contract == NoPromise:
				return "each message arrives but for what falls between two links, or goes with a cut call"
			case s.Contract == Bounded:
				return "each accepted message arrives but for what goes with a refused cursor"
			}
			return ""
		},
		source: "2025-11-25 transports, Resumability 3: replay what would have been sent after the cursor",
		level:  LevelContract,
		role:   ofMessages,
		settle: func(s *Stream) {
			s.check(noLoss, s.msgs.Delivered+s.msgs.Lost)
			if n := s.lateTail(); n > 0 {
				s.find(noLoss, finding{count: n, what: "never came, and silence since", pending: true})
			}
			if s.msgs.Lost == 0 {
				return
			}
			ranges := s.lostRanges()
			what := "never came on any link"
			if s.fate == fateRefused {
				what = "gone with the refused cursor"
			}
			s.find(noLoss, finding{count: s.msgs.Lost, ranges: ranges, what: what, after: s.gapAfter,
				mark: "no-loss: " + numbers(ranges, s.msgs.Lost) + " never came"})
		},
	}
}
