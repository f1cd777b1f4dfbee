package result

import "math"

// sure is how many standard deviations an interval of 99.9 % reaches to either side.
// Dozens of figures are compared at a time, so one in twenty would cry wolf every time.
const sure = 3.2905

// A Range is where a value lies, at 99.9 %. Where there are too few samples to tell,
// both ends are 0.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// ranks returns the ranks between which the quantile of n samples lies; false: there
// are too few of them.
func ranks(n int64, q float64) (low, high int64, ok bool) {
	p := q / 100
	middle, spread := float64(n)*p, sure*math.Sqrt(float64(n)*p*(1-p))
	low, high = int64(math.Floor(middle-spread)), int64(math.Ceil(middle+spread))+1
	return low, high, low >= 1 && high <= n
}

// Interval returns where the quantile q, in percent, of what n samples were drawn from
// lies: between two of the samples, which at finds by their rank from 1, the smallest.
// It rests on ranks alone, whatever the distribution is, and takes the samples for
// independent of one another.
func Interval(n int64, q float64, at func(rank int64) float64) Range {
	low, high, ok := ranks(n, q)
	if !ok {
		return Range{}
	}
	return Range{Low: at(low), High: at(high)}
}

// share returns where the share lies that n of so many are a sample of (Wilson).
func share(n, of int64) Range {
	if of <= 0 {
		return Range{}
	}
	total, p := float64(of), float64(n)/float64(of)
	z := sure * sure / total
	half := sure * math.Sqrt(p*(1-p)/total+z/(4*total))
	return Range{Low: max(0, (p+z/2-half)/(1+z)), High: min(1, (p+z/2+half)/(1+z))}
}

// difference returns where after - before lies, from where each of them does (MOVER:
// the method of variance estimates recovery).
func difference(before, after float64, b, a Range) Range {
	d := after - before
	return Range{
		Low:  d - math.Hypot(after-a.Low, b.High-before),
		High: d + math.Hypot(a.High-after, before-b.Low),
	}
}
