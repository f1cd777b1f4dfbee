package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gapless-dev/gapless/loadgen/twin"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// Methods that a [Call] may use.
const (
	MethodTool     = "tools/call"
	MethodResource = "resources/read"
	MethodPrompt   = "prompts/get"
)

// A Call is one of the requests that the load is made of.
type Call struct {
	// Method is MethodTool ("" means it), MethodResource or MethodPrompt.
	Method string
	// Name of the tool or of the prompt, or the URI of the resource.
	Name string
	// Args are sent with every call; nil sends {}. A prompt takes an object of strings
	// (2025-11-25 prompts, Getting a Prompt), a resource none. For an arrival of kind
	// history.StreamGet they must make the tool emit on the GET stream of its session, and
	// Expected must be set.
	Args func(Arrival) json.RawMessage
	// Expected is the number of messages per call, 0 if unknown.
	Expected int
	// Deadline bounds a call from its first byte to its response; 0 means 60 s.
	Deadline time.Duration
	// Numbering says where the messages number themselves.
	Numbering Numbering
}

// Numbering says which messages of a call count and where in them their numbers lie. The
// zero value reads notifications/progress, /params/progress and /params/total.
type Numbering struct {
	// Method of the notification that carries the messages; "" means
	// notifications/progress. For any other, an empty Sequence or Total means that there is
	// none.
	Method string
	// Sequence points to the number of a message, 1 to N, Total to N, Digest to a digest of
	// the text at Payload: JSON Pointers (RFC 6901) into the whole message.
	Sequence, Total, Digest, Payload string
	// Twin numbers the messages by comparison with the control calls; Sequence and Total
	// are not used then.
	Twin *twin.Twin
}

// maxCallKinds is how many calls a record can tell apart (history.Exchange.Call).
const maxCallKinds = 256

// validateCalls reports everything that is wrong with the calls.
func (c Config) validateCalls() error {
	var errs []error
	if n := len(c.Calls); n == 0 || n > maxCallKinds {
		errs = append(errs, fmt.Errorf("calls must be 1 to %d, not %d", maxCallKinds, n))
	}
	if n := c.Plan.choices(); c.Plan.Len() > 0 && n > len(c.Calls) {
		errs = append(errs, fmt.Errorf("the plan draws from %d calls, of which %d are described", n, len(c.Calls)))
	}
	for i, call := range c.Calls {
		complain := func(bad bool, format string, args ...any) {
			if bad {
				errs = append(errs, fmt.Errorf("call %d: "+format, append([]any{i + 1}, args...)...))
			}
		}
		complain(!slices.Contains([]string{"", MethodTool, MethodResource, MethodPrompt}, call.Method),
			"method %q: must be %s, %s or %s", call.Method, MethodTool, MethodResource, MethodPrompt)
		complain(call.Name == "", "a tool, resource or prompt must be named")
		complain(call.Expected < 0, "expected must not be negative: %d", call.Expected)
		complain(call.Deadline < 0, "deadline must not be negative: %v", call.Deadline)
		_, err := call.Numbering.compile()
		complain(err != nil, "%w", err)
	}
	return errors.Join(errs...)
}

// A spoken call is one as it goes over the wire: what does not change from one arrival to
// the next is made once.
type spoken struct {
	Call
	name   []byte       // as a JSON string
	fields []wire.Field // of revision 2026-07-28
	num    numbering
}

func speak(calls []Call) []spoken {
	all := make([]spoken, len(calls))
	for i, c := range calls {
		c.Method = or(c.Method, MethodTool)
		c.Deadline = or(c.Deadline, 60*time.Second)
		name, _ := json.Marshal(c.Name) // a string can always be marshalled
		num, _ := c.Numbering.compile() // Validate has asked
		all[i] = spoken{Call: c, name: name, fields: modernFields(c.Method, c.Name), num: num}
	}
	return all
}

// or returns v, or what stands for its zero value.
func or[T comparable](v, instead T) T {
	var zero T
	if v == zero {
		return instead
	}
	return v
}

// params appends the parameters of the call, after the _meta member.
func (c *spoken) params(b []byte, a Arrival) []byte {
	if c.Method == MethodResource {
		b = append(b, `,"uri":`...)
		return append(b, c.name...)
	}
	b = append(b, `,"name":`...)
	b = append(b, c.name...)
	b = append(b, `,"arguments":`...)
	var args json.RawMessage
	if c.Args != nil {
		args = c.Args(a)
	}
	if len(args) == 0 {
		return append(b, "{}"...)
	}
	return append(b, args...)
}
