package result

// A Timeline shows what happened to one damaged stream, compactly.
type Timeline struct {
	Session  uint32 `json:"session"`
	Stream   uint32 `json:"stream"`
	Call     string `json:"call"`     // tool and arguments: count {"n":60}
	Request  string `json:"request"`  // the JSON-RPC id
	Expected string `json:"expected"` // such as 1-60 (params.total)
	// Findings are what is wrong, in capitals and numbers: LOST 23-25.
	Findings []string `json:"findings"`
	Steps    []Step   `json:"steps"`
	// Same lists other streams whose damage has this shape.
	Same   []uint32 `json:"same"`
	Repeat string   `json:"repeat"` // the command that repeats it
}

// A Step is one line of a timeline: one fact, or several alike in a row.
type Step struct {
	AtSeconds float64 `json:"at_seconds"` // since the stream's first attempt
	Link      uint32  `json:"link"`       // counted within the stream, from 1; 0: none
	Mark      string  `json:"mark"`       // Sent, Received or Cut
	Text      string  `json:"text"`
	// Finding says what is wrong here: "expected 23", or the name of an invariant.
	Finding string `json:"finding"`
	Cursor  int64  `json:"cursor"` // ordinal of the last committed id after the step; -1: do not show
}

// Marks of a [Step].
const (
	Sent     = ">"
	Received = "<"
	Cut      = "x"
)
