package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/export"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// watchEvery is how often the limits that can end a run are looked at.
const watchEvery = time.Second

// limits translates the thresholds of a valid profile.
func limits(p profiles.Profile) ([]result.Limit, error) {
	all, err := p.Limits()
	if err != nil {
		return nil, err
	}
	var out []result.Limit
	for _, l := range all {
		out = append(out, result.Limit(l))
	}
	return out, nil
}

// watch ends the load once a limit is passed that is to end it.
func (x *experiment) watch(ctx context.Context, stop func(), live *loadgen.Live, planned int) {
	passed, is := result.Watch(ctx, watchEvery, x.limits, export.Going(live, int64(planned)))
	if !is {
		return
	}
	remark := fmt.Sprintf("the run was ended: %s %s was passed", passed.Figure, passed.Expression)
	x.passed.Store(&remark)
	stop()
}

// surpassed says which limit ended the run, "" if none did.
func (x *experiment) surpassed() string {
	if remark := x.passed.Load(); remark != nil {
		return *remark
	}
	return ""
}
