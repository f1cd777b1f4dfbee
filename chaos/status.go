package chaos

import (
	"fmt"
	"net/http"
	"time"
)

// status is the load balancer in front of a target that is busy or away: the request
// never arrives, and the answer is made up. With a time it says when to come back.
var status = kindSpec{
	name:      "status",
	about:     "A resume is answered with a made-up 503 (or 502, 429: code), with Retry-After if for says how long; its request never leaves.",
	at:        []Place{ResumeBeforeHeaders},
	elsewhere: "only the request of a resume can be answered in the target's place",
	answers:   func(f *Planned) (string, error) { return madeUp(f), nil },
	takes:     parameters{lasting: true, code: true},
}

// defaultCode is the status when a fault does not say.
const defaultCode = http.StatusServiceUnavailable

func madeUp(f *Planned) string {
	code := f.Code
	if code == 0 {
		code = defaultCode
	}
	retry := ""
	if f.For > 0 && (code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests) {
		retry = fmt.Sprintf("Retry-After: %d\r\n", (f.For+time.Second-1)/time.Second)
	}
	body := "made up by gapless\n"
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(body), retry, body)
}
