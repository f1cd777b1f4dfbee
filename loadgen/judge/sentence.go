package judge

import (
	"fmt"
	"strings"
)

// sentences puts the verdict into words, so that text and JSON say the same.
func (j *Judge) sentences(v *Verdict, t Tail) {
	switch v.Word {
	case Holds:
		v.Sentence = j.holdsSentence(v)
		v.Also = j.alsoHolds(v)
	case Violated:
		v.Sentence = j.violatedSentence(v)
		v.Also = j.alsoViolated(v)
	default:
		j.inconclusive(v, t)
	}
}

func (j *Judge) holdsSentence(v *Verdict) string {
	streams, cuts := plural(v.Streams.Judged, "stream", "streams"), plural(v.Faults.Cuts, "cut", "cuts")
	messages := plural(v.Messages.Delivered, "message", "messages")
	responses := plural(v.Responses.Received, "response", "responses")
	switch r := v.Drops.Reissues; {
	case j.setup.Modern:
		what := messages
		if j.setup.Oracle == OracleResponse {
			what = responses
		}
		return fmt.Sprintf("%s in %s met %s: a cut call is lost by design in 2026-07-28; %s of %s made again and answered, and nothing of a cut call came on the stream of its re-issue.",
			what, streams, cuts, thousands(r.Answered), plural(v.Drops.Unanswered, "was", "were"))
	case j.setup.Oracle == OracleResponse:
		return fmt.Sprintf("%s in %s survived %s: %s; %s.", responses, streams, cuts, j.promise(v), j.onlyResponses())
	}
	return fmt.Sprintf("%s in %s survived %s: %s.", messages, streams, cuts, j.promise(v))
}

// onlyResponses says what is not judged, and why.
func (j *Judge) onlyResponses() string {
	who, more := j.setup.named(func(c *CallSetup) bool { return c.ResponseOnly }), len(j.setup.Calls) > 1
	if who == "" {
		return "only the response is judged"
	}
	why := who + " sends no messages before it"
	switch {
	case j.special.unnumbered > 0:
		why = "nothing numbers what " + who + " sends before it"
	case more && j.setup.Oracle == OracleResponse:
		why = "no call sends messages before it"
	}
	return "only the response is judged, since " + why
}

// alsoHolds says what the first sentence leaves out.
func (j *Judge) alsoHolds(v *Verdict) []string {
	var also []string
	say := func(when bool, text string) {
		if when {
			also = append(also, text)
		}
	}
	twins := j.setup.named(func(c *CallSetup) bool { return c.Twin > 0 })
	say(j.setup.Oracle == OracleTwin && twins != "", "The messages of "+twins+" were told apart by comparison with the control calls.")
	mute := j.setup.named(func(c *CallSetup) bool { return j.setup.mute(c) })
	say(j.setup.Oracle != OracleResponse && mute != "", "Of "+mute+" only the response is judged.")
	say(v.Messages.LostAllowed > 0 && v.Retention > 0, j.retained(v))
	if r := v.Drops.Reissues; r.Asked > 0 && v.Drops.Unanswered > 0 {
		text := r.String()
		say(true, strings.ToUpper(text[:1])+text[1:]+".")
	}
	if h := v.Drops.Handlers; j.setup.Modern && h.Known > 0 {
		text := h.String()
		say(true, strings.ToUpper(text[:1])+text[1:]+".")
	}
	say(len(j.setup.Ignore) > 0, "Not judged, as the profile says: "+strings.Join(j.setup.Ignore, ", ")+".")
	return also
}

// promise says what held, and what the contract had to allow for it.
func (j *Judge) promise(v *Verdict) string {
	m := &v.Messages
	lost, responses := m.LostAllowed, v.Responses.MissingAllowed
	var allowed []string
	if lost > 0 {
		where := "went with a refused cursor"
		switch {
		case j.setup.Contract == NoPromise && v.Resumes.Succeeded > 0:
			where = "fell between two links"
		case j.setup.Contract == NoPromise:
			where = "went with a cut call"
		}
		allowed = append(allowed, thousands(lost)+" "+where)
	}
	if responses > 0 {
		allowed = append(allowed, plural(responses, "response of a cut call never came", "responses of cut calls never came"))
	}
	if m.DuplicatedAllowed > 0 {
		allowed = append(allowed, thousands(m.DuplicatedAllowed)+" came again after a resume")
	}
	text := j.held(lost > 0 || responses > 0, m.DuplicatedAllowed > 0)
	if len(allowed) == 0 {
		return text
	}
	return fmt.Sprintf("%s; %s, as the contract %q allows", text, strings.Join(allowed, " and "), j.setup.Contract)
}

// held names what was judged and held: a promise that the run ignored is not claimed.
func (j *Judge) held(otherwise, repeats bool) string {
	var parts []string
	if j.setup.Oracle == OracleResponse {
		if text := "each came once"; !otherwise {
			return text
		}
		return "each other came once"
	}
	if j.roles[noLoss] != NotApplicable {
		parts = append(parts, "none lost")
		if otherwise {
			parts[0] += " otherwise"
		}
	}
	if j.roles[noDuplicate] != NotApplicable && !repeats {
		parts = append(parts, "none repeated")
	}
	if j.roles[inOrder] != NotApplicable {
		parts = append(parts, "all in order")
	}
	if len(parts) == 0 {
		return "what was judged holds"
	}
	return strings.Join(parts, ", ")
}

// retained says how old the refused cursors were.
func (j *Judge) retained(v *Verdict) string {
	return fmt.Sprintf("%s, the youngest %.3g s old: that is retention, not silent loss.",
		plural(j.special.retained, "stream was refused its cursor", "streams were refused their cursors"), v.Retention.Seconds())
}

// violatedSentence names the damage, the gravest first.
func (j *Judge) violatedSentence(v *Verdict) string {
	var parts []string
	say := func(n int64, text string) {
		if n <= 0 {
			return
		}
		if len(parts) == 0 {
			text = plural(n, "message", "messages") + " " + text
		} else {
			text = thousands(n) + " " + text
		}
		parts = append(parts, text)
	}
	say(j.tally[noLoss].violated, "lost")
	say(j.tally[noDuplicate].violated, "repeated")
	say(j.tally[inOrder].violated, "out of order")
	say(j.tally[intact].violated, "corrupt")
	say(j.tally[ownStream].violated+j.tally[ownSession].violated, "of other streams")
	if n := v.Responses.Missing; n > 0 {
		parts = append(parts, plural(n, "response never came", "responses never came"))
	}
	if n := v.Responses.Repeated; n > 0 {
		parts = append(parts, plural(n, "response came again", "responses came again"))
	}
	if len(parts) == 0 {
		for _, inv := range v.Invariants {
			if inv.Decides && inv.Violations > 0 {
				parts = append(parts, fmt.Sprintf("%s is violated %s", inv.Name, plural(inv.Violations, "time", "times")))
			}
		}
	}
	text := strings.Join(parts, ", ")
	switch {
	case v.Streams.Damaged == 0 && j.controlSum[0] == 0:
		return text + "." // it came on the canary, or is no matter of one stream
	case v.Streams.Damaged == 0:
		return text + ", in control calls alone."
	}
	if v.Streams.Damaged == j.damaged.aside {
		return text + "."
	}
	of := plural(v.Streams.Judged, "judged stream is", "judged streams are")
	if v.Streams.Damaged > v.Streams.Judged { // some broke a promise without an outcome that says so
		of = plural(v.Streams.Opened, "stream is", "streams are")
	}
	return fmt.Sprintf("%s: %s of %s damaged.", text, thousands(v.Streams.Damaged), of)
}

// alsoViolated says where the fault lies, as far as the control calls tell.
func (j *Judge) alsoViolated(v *Verdict) []string {
	var also []string
	c := &v.Control
	switch {
	case j.controlSum[0] > 0:
		does := "it fails anyway"
		if j.tally[noLoss].violated > 0 {
			does = "it loses anyway"
		}
		also = append(also, fmt.Sprintf("%d of %s damaged too, without any fault: %s.",
			j.controlSum[0], plural(c.Calls, "control call is", "control calls are"), does))
	case c.Calls == 0 || c.Complete < c.Calls:
	case j.damaged.uncut > 0:
		also = append(also, fmt.Sprintf("%s complete, but %s no fault: it is not the resume alone that fails.",
			controlCalls(c.Calls), plural(j.damaged.uncut, "damaged stream had met", "damaged streams had met")))
	case v.Streams.Damaged > j.damaged.aside && v.Resumes.Attempted > 0:
		also = append(also, controlCalls(c.Calls)+" complete, so it is the resume that fails.")
	}
	if j.special.retained > 0 {
		also = append(also, j.retained(v))
	}
	return also
}

func controlCalls(n int64) string {
	if n == 1 {
		return "The control call was"
	}
	return fmt.Sprintf("The %s control calls were", thousands(n))
}

// inconclusive says what could not be told, and what to do about it.
func (j *Judge) inconclusive(v *Verdict, t Tail) {
	cannot := "This run cannot say whether messages survive"
	if j.setup.Oracle == OracleResponse {
		cannot = "This run cannot say whether responses survive"
	}
	sp := &j.special
	seen := v.Streams.Opened + v.Control.Calls
	switch {
	case j.stdio():
		v.Sentence = cannot + ": " + v.Why[0] + "."
		v.Next = "test the same server over HTTP: a cut there ends a connection, not the server"
		j.figures(v)
	case t.Doubt != "" || sp.throttled > 0 || sp.large+sp.deep > 0: // whatever else is missing follows from it
		v.Sentence = cannot + ": " + v.Why[0] + "."
		v.Next = j.next()
	case j.setup.Contract != NoPromise && (seen > 0 && sp.withID == 0 || sp.notResumable > 0 && v.Resumes.Succeeded == 0):
		v.Sentence = cannot + ": the server offers no resumption."
		v.Next = j.resumption()
		j.figures(v)
	case len(v.Why) > 0:
		v.Sentence = cannot + ": " + v.Why[0] + "."
		v.Next = j.next()
	default:
		v.Sentence = cannot + "."
	}
	if j.setup.Modern {
		j.figures(v)
	}
	if v.Seen == "" && v.Messages.Expected > 0 {
		v.Seen = fmt.Sprintf("%s of %s arrived; none is known to be lost", thousands(v.Messages.Delivered),
			plural(v.Messages.Expected, "message", "messages"))
	}
}

// figures says what a cut costs where nothing is resumed.
func (j *Judge) figures(v *Verdict) {
	if said := v.Drops.seen(); len(said) > 0 {
		v.Seen, v.SeenAlso = said[0], said[1:]
	}
}

// resumption says what the target lacks to be resumed.
func (j *Judge) resumption() string {
	switch {
	case j.special.withID > 0:
		return "serve GET with Last-Event-ID: its events carry ids, but GET is answered 405"
	case j.answers.onlyJSON():
		return "answer tools/call with an event stream (text/event-stream) whose events carry ids, and give it an event store"
	}
	return "give it an event store (TypeScript: `eventStore`), or judge it as it is: --contract none"
}

// next says what to do where the target is not to blame.
func (j *Judge) next() string {
	sp := &j.special
	switch {
	case j.patience.Calls > 0:
		return "let the server announce a shorter retry, or give the calls more time (calls: deadline)"
	case sp.throttled > 0:
		return "ask for less: a lower --max-rate, or fewer streams"
	case sp.large+sp.deep > 0:
		return "use a call whose messages are smaller"
	case j.answers.Bare > 0:
		return "let the server answer each call with an event stream (text/event-stream), or use one that it always answers so"
	case sp.misfits+sp.surplus > 0 || sp.uncalled > 0:
		return "say what to expect: where a message carries its number (calls: expect.sequence), or how many there are (--expect)"
	case !j.setup.told() && j.setup.Oracle != OracleResponse:
		return "say where a message carries its number (calls: expect.sequence), or use a call whose messages are the same each time"
	}
	return ""
}
